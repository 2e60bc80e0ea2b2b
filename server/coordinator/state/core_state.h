#ifndef LUTHIER_SERVER_COORDINATOR_STATE_CORE_STATE_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_CORE_STATE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/state/study_state.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// An ask that was not answered yet.
struct Waiter {
  SuggestOp op;
  std::string digest;           // Digest of the request's content.
  storage::StudyKey study = 0;  // 0: any.
};

// Numbers that only grow; storage keeps them beyond the rows they came from.
struct Counters {
  uint64_t seq = 0;           // The newest event.
  uint64_t fence = 0;         // The newest lease.
  storage::StudyKey key = 0;  // The largest ever given to a study.
};

// The memory of the core between batches. The asks that wait and the times workers were last seen live here alone;
// everything else follows from storage.
struct CoreState {
  std::map<storage::StudyKey, StudyState> studies;
  std::unordered_map<std::string, storage::StudyKey> by_id;
  Counters counters;
  std::deque<Waiter> waiters;                       // In order of arrival.
  std::map<std::string, absl::Duration> last_seen;  // Worker -> when it last asked.
  std::map<std::string, int> held;                  // Worker -> its unexpired leases; CountHeld(), kept up to date.
  absl::Duration last_tick = absl::ZeroDuration();
  absl::Duration next_forget = absl::ZeroDuration();  // When old requests are forgotten again.
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_CORE_STATE_H_
