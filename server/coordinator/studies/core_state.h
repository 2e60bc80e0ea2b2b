#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_CORE_STATE_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_CORE_STATE_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/study/trial_state.h"
#include "server/coordinator/studies/pool.h"
#include "server/coordinator/studies/study.h"
#include "server/coordinator/studies/waiters.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Numbers that only grow; storage keeps them beyond the rows they came from.
struct Counters {
  uint64_t seq = 0;           // Number of the newest event.
  uint64_t fence = 0;         // Fence of the newest lease.
  storage::StudyKey key = 0;  // Largest key ever given to a study.
};

// One project's use of the things that quotas limit.
struct ProjectUse {
  int64_t studies = 0;
  int64_t running = 0;         // Unexpired leases.
  int64_t waiting = 0;         // Asks.
  int64_t bytes = 0;           // StudyRecord::bytes of all its studies.
  std::set<uint64_t> stalled;  // Asks that wait until fewer trials of the project run.
  friend bool operator==(const ProjectUse&, const ProjectUse&) = default;
};

struct DamagedStudy {
  storage::StudyKey key = 0;
  absl::Status damage;
};

// A deleted study that can be brought back.
struct HiddenStudy {
  std::string id;         // The id that it had.
  absl::Duration uptime;  // Storage::LastUptime's clock when it was deleted.
  uint64_t generation = 0;
};

// The memory of the core between batches. Waiting asks and the workers that asked last live here alone; everything else
// follows from storage. No batch looks at all of it: a change of a study wakes it (index.h), and what depends on time
// has a deadline.
struct CoreState {
  std::map<storage::StudyKey, Study> studies;
  std::unordered_map<std::string, storage::StudyKey> by_id;
  // Studies whose rows are damaged, by id. They are in no other list. Their calls are refused with `damage`, except for
  // their deletion.
  std::map<std::string, DamagedStudy> damaged;
  uint64_t damaged_version = 0;                          // Each change of `damaged` raises it.
  std::map<storage::StudyKey, HiddenStudy> hidden;       // In no other list.
  absl::Duration next_purge = absl::InfiniteDuration();  // Uptime at which the first of them is gone for ever.
  Counters counters;
  std::array<int64_t, study::kTrialStateCount> totals{};  // Trials of all studies, by state.
  std::unordered_map<std::string, int> held;   // Worker -> its unexpired leases; CountHeld(), kept up to date.
  std::map<std::string, ProjectUse> projects;  // Projects that use something; CountUse(), kept up to date.
  std::set<std::string> held_back;             // Projects with stalled asks.
  uint64_t held_back_version = 0;              // Grows when they change.
  uint64_t quotas_version = 0;                 // Version of the QuotaTable by which stalled asks were held back.

  Waiters waiters;
  std::set<uint64_t> unsettled;  // Asks to be looked at though no study changed: new ones, and those that Recount left.
  uint64_t checked = 0;          // The last ask that was checked in passing.
  std::map<std::string, Pool> pools;

  std::set<storage::StudyKey> woken;     // Studies that changed, or are gone, since their asks were last looked at.
  std::set<storage::StudyKey> departed;  // Studies that compute for an ask that is gone: woken in the next batch.
  // Studies with a request for suggestions under way, by the time.
  std::set<std::pair<absl::Duration, storage::StudyKey>> computing;
  std::set<storage::StudyKey> wanting;  // All studies that want suggestions, and possibly others.
  std::set<storage::StudyKey> expired;  // Studies with expired leases.
  std::set<storage::StudyKey> put_off;  // Finished studies whose trials were not read yet.
  std::set<std::pair<absl::Duration, storage::StudyKey>> timers;  // Study::timer of all that have one.

  absl::Duration last_tick = absl::ZeroDuration();
  absl::Duration next_forget = absl::ZeroDuration();  // When old requests are forgotten again.
  absl::Duration next_uptime = absl::ZeroDuration();  // When the uptime is stored again where nothing else is.
  // Storage::LastUptime's clock less Clock::Monotonic(): time in which no coordinator ran does not count.
  absl::Duration uptime_offset = absl::ZeroDuration();
  int64_t steps = 0;  // Studies, leases and asks that were looked at, so far: what batches cost, for tests.
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_CORE_STATE_H_
