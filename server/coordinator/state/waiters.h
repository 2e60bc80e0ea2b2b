#ifndef LUTHIER_SERVER_COORDINATOR_STATE_WAITERS_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_WAITERS_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/state/core_state.h"

namespace luthier::coordinator {

// Answers those of the waiting asks that `which` accepts with `status`, at once, and forgets them.
void RefuseWaiting(CoreState& state, const absl::Status& status, const std::function<bool(const Waiter&)>& which);

// Earliest deadline of a waiting ask; InfiniteDuration when none waits.
absl::Duration NextDeadline(const CoreState& state);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_WAITERS_H_
