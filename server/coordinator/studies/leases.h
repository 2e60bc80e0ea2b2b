#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_LEASES_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_LEASES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/study/directive.h"
#include "server/coordinator/messages/operations.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// 16 bytes: the fence as 8 bytes big endian, then 8 random bytes.
std::string MakeToken(uint64_t fence, uint64_t random);
// Returns 0 for anything but 16 bytes.
uint64_t FenceOf(const std::string& token);

// Deadlines of live leases, in memory alone: the coordinator's restart gives every lease a full TTL. Heartbeats renew
// here from any thread while the writer grants and ends leases. Thread-safe.
//
// A lease whose deadline has passed stays until the writer takes it: its holder may come back first.
class LeaseTable {
 public:
  struct Entry {
    storage::StudyKey study = 0;
    int64_t trial = 0;
    absl::Duration ttl;
    absl::Duration deadline;  // Clock::Monotonic().
    bool finish = false;      // Its holder is told kFinish instead of kContinue.
    std::string worker = "";  // Its holder.
  };

  void Grant(const std::string& token, Entry entry);
  // Ends a lease whose trial is final or was released. Its holder is told `directive` from now on (kLost is not
  // remembered).
  void End(const std::string& token, study::Directive directive);
  // Makes the holder of a live lease be told kFinish from now on.
  void AskToFinish(const std::string& token);
  // True if the lease may be given to another: it is past its deadline, or unknown. The caller ends it then.
  bool Expired(const std::string& token, absl::Duration now) const;
  std::optional<absl::Duration> Deadline(const std::string& token) const;
  // Returns nothing for a lease that was ended or never given.
  std::optional<Entry> Find(const std::string& token) const;

  struct Renewal {
    std::vector<study::Directive> directives;  // One for each token.
    bool any_expired = false;  // True if some lease had expired: nothing was renewed, and the writer must decide.
  };
  // Renews all, unless one of them has expired and `take_back` is false.
  Renewal Renew(const std::vector<std::string>& tokens, absl::Duration now, bool take_back);

  // Moves every deadline, so that a stall of the coordinator costs no worker its lease. O(1).
  void ShiftAll(absl::Duration by);
  // Drops the leases of one study, e.g. before it is read again from storage. O(those leases).
  void DropStudy(storage::StudyKey study);
  size_t size() const;
  // Live leases by holder, without those past their deadline. O(all leases).
  std::unordered_map<std::string, int> CountByWorker(absl::Duration now) const;

 private:
  using Live = std::unordered_map<std::string, Entry>;
  void Drop(Live::iterator lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  Live live_ ABSL_GUARDED_BY(mutex_);  // The deadlines lack `shift_`.
  absl::Duration shift_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::unordered_map<storage::StudyKey, std::unordered_set<const std::string*>> by_study_
      ABSL_GUARDED_BY(mutex_);  // Keys of `live_`.
  // Directives for the holders of ended leases; bounded.
  std::unordered_map<std::string, study::Directive> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_LEASES_H_
