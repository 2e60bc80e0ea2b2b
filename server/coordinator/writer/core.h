#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_CORE_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_CORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/permit.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial_state.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/leases.h"
#include "server/coordinator/studies/load.h"
#include "server/coordinator/writer/observer.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// The state machine of all studies: operations in, changes and answers out. It has no thread, clock, file or network of
// its own and is driven by one thread (the writer):
//
//   core.BeginBatch();                         // reads the clock once, looks at deadlines
//   core.Apply(op) …                           // decides, changes memory, notes changes and answers
//   core.ServeWaiting();                       // grants to waiting asks; may want suggestions
//   status = storage.Commit(core.Seal());   // asks whose time is up are answered with what there is
//   core.EndBatch(status);                     // delivers the answers; on failure restores memory from storage
//
// Answers leave only after the commit they depend on. Everything is derived from storage (Load): killing the process
// between any two steps loses no acknowledged change.
//
// This class is the door. What operations do is in operations/, one file each; what they share is in trials/ and
// granting/; what they work on is the Context (batch/context.h).
class Core {
 public:
  using Options = CoreOptions;

  // `storage`, `clock` and `leases` must outlive the core.
  Core(storage::Storage* storage, const base::Clock* clock, LeaseTable* leases, Options options);

  // Reads what storage holds; every RUNNING trial gets a full TTL from now. Errors as Storage.
  absl::Status Load(Extent extent = Extent::kAll);
  // Reads at most `most` of the studies that Load put off. To be called between batches. False: none is left. Errors as
  // Storage.
  absl::StatusOr<bool> LoadMore(int most);

  void BeginBatch();
  // Asks `permit` first (null: none is needed). If it refuses, nothing is done, and its error is the answer. The time
  // is that of the batch, which its events bear. A waiting ask keeps its permit.
  void Apply(Operation operation, const std::shared_ptr<const base::Permit>& permit = nullptr);
  void ServeWaiting();
  // Changes of the batch; empty: nothing to commit. Holds until EndBatch.
  const storage::WriteBatch& Seal();
  // Errors as Storage: memory could not be restored after a failed commit, and the core must not be used any more.
  absl::Status EndBatch(const absl::Status& committed);

  // Takes the suggestions that are wanted now. Each study has at most one request under way; it is answered by
  // ProposalsOps with its generation. May be called within a batch (for designers that ignore history) or after it.
  std::vector<ProposalRequest> TakeProposalRequests(const std::function<bool(storage::StudyKey)>& which);

  // Takes the changes that designers and watchers are to be told. To be called after EndBatch(OK).
  std::vector<HistoryUpdate> TakeHistoryUpdates();
  std::vector<storage::Event> TakeEvents();
  // Takes the studies whose designer must be made anew from storage (after a rollback), and those that are gone.
  std::vector<storage::StudyKey> TakeInvalidated();

  // The spec of a live study, or null.
  std::shared_ptr<const study::StudySpec> SpecOf(storage::StudyKey key) const;
  std::vector<storage::StudyKey> Studies() const;
  // Studies whose rows are damaged; `damaged_version` changes with them.
  const std::map<std::string, DamagedStudy>& damaged() const { return context_.state.damaged; }
  // Projects whose asks wait until fewer of their trials run, by their quota; the version grows when they change.
  const std::set<std::string>& held_back() const { return context_.state.held_back; }
  uint64_t held_back_version() const { return context_.state.held_back_version; }
  uint64_t damaged_version() const { return context_.state.damaged_version; }
  uint64_t last_seq() const { return context_.state.counters.seq; }
  // Storage::LastUptime's clock less Clock::Monotonic(). Any thread may call it once Load has returned.
  absl::Duration uptime_offset() const { return context_.state.uptime_offset; }
  uint64_t fence() const { return context_.state.counters.fence; }
  // Earliest deadline of a waiting Suggest; InfiniteDuration when none waits.
  absl::Duration NextDeadline() const;
  // Extends every lease by `by`, for a time in which none could be renewed or stored.
  void ExtendLeases(absl::Duration by);
  // Answers all waiting asks with `status` and drops them, at shutdown.
  void RefuseWaiting(const absl::Status& status);
  int waiting() const { return static_cast<int>(context_.state.waiters.size()); }
  // Trials of all studies, by state.
  std::array<int64_t, study::kTrialStateCount> CountTrials() const;

  // Returns the slots that studies of each pool use and want, by study::PoolKey. O(studies).
  std::map<std::string, PoolSlots> CountSlots() const;

  // Number of studies, leases and asks that were looked at so far: the cost of batches, whatever the machine.
  int64_t steps() const { return context_.state.steps; }

  // Recounts everything from the rows in storage and compares with memory: the invariants I1, I2, I5, I7, and that the
  // indexes of studies and asks fit them. For tests; O(trials).
  absl::Status CheckInvariants() const;

 private:
  // Looks again at asks that quotas hold back, if the quotas changed.
  void CheckQuotas();

  Context context_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_CORE_H_
