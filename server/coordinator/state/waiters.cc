#include "server/coordinator/state/waiters.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace luthier::coordinator {

void RefuseWaiting(CoreState& state, const absl::Status& status, const std::function<bool(const Waiter&)>& which) {
  std::deque<Waiter> gone;
  std::deque<Waiter> still;
  for (Waiter& waiter : state.waiters) (which(waiter) ? gone : still).push_back(std::move(waiter));
  state.waiters = std::move(still);
  for (Waiter& waiter : gone) {
    if (waiter.op.done) waiter.op.done(status);
  }
}

absl::Duration NextDeadline(const CoreState& state) {
  absl::Duration next = absl::InfiniteDuration();
  for (const Waiter& waiter : state.waiters) next = std::min(next, waiter.op.deadline);
  return next;
}

}  // namespace luthier::coordinator
