#ifndef LUTHIER_SERVER_ACCESS_AUDIT_H_
#define LUTHIER_SERVER_ACCESS_AUDIT_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "server/access/access_store.h"

namespace luthier::access {

// Writes the audit behind the calls: one transaction for all entries that came while the last was written. A crash
// loses the newest entries, never a part of one. Beyond 10,000 changes that wait, changes are dropped and their number
// is written instead. Thread-safe.
//
// Refusals are folded, so that a caller who makes many adds few entries. Those of one caller with the same method and
// outcome within a minute share the entry of the first, with their number and the time of the last. A caller is a
// token, or an address without a valid one. Refusals of a caller within a minute beyond kMaxAlike such entries share
// one more, without a method and with the outcome OTHERS; addresses beyond kMaxAddresses count as one caller without a
// name. The first refusal of a kind is written at once, the numbers of others within a second.
class Audit {
 public:
  static constexpr size_t kMaxAlike = 8;
  static constexpr size_t kMaxAddresses = 100;

  // All must outlive this.
  Audit(AccessStore* store, const base::Clock* clock);
  // Writes the entries that wait.
  ~Audit();

  void Add(AuditRecord entry);
  // Notes that the token was used now. The time is kept to the minute.
  void NoteUse(const std::string& token);
  // Notes that the token's newest secret, which has this hash, was used for the first time.
  void NoteClaim(const std::string& token, const std::string& hash);
  // Returns when all entries added so far are on the disk, or could not be written.
  void Flush();

 private:
  // Refusals that are alike.
  struct Fold {
    AuditRecord entry;
    bool waits = false;  // True if it is in `folded_`.
  };
  // Refusals of a caller from `begin` on.
  struct Minute {
    absl::Duration begin;
    bool address = false;
    std::map<std::pair<std::string, std::string>, std::shared_ptr<Fold>> folds;  // By method and outcome.
  };

  void AddRefusal(AuditRecord entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Minute& MinuteOf(AuditRecord* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetMinutes(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  void WriteOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  AccessStore* const store_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  base::CondVar changed_, written_;
  std::vector<AuditRecord> waiting_ ABSL_GUARDED_BY(mutex_);             // Changes.
  std::map<std::string, absl::Time> uses_ ABSL_GUARDED_BY(mutex_);       // Times of use to be written.
  std::map<std::string, absl::Time> last_uses_ ABSL_GUARDED_BY(mutex_);  // All known times of use.
  std::vector<std::pair<std::string, std::string>> claims_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Minute> minutes_ ABSL_GUARDED_BY(mutex_);  // By caller.
  size_t addresses_ ABSL_GUARDED_BY(mutex_) = 0;      // Number of callers in `minutes_` that are addresses.
  absl::Duration forgotten_ ABSL_GUARDED_BY(mutex_);  // When old minutes were last looked for.
  std::vector<std::shared_ptr<Fold>> folded_ ABSL_GUARDED_BY(mutex_);  // Refusals to be written.
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;  // True if `folded_` is to be written without delay.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_AUDIT_H_
