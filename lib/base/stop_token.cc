#include "lib/base/stop_token.h"

#include <algorithm>

#include "lib/base/clock.h"

namespace luthier::base {

absl::Status StoppedError() {
  return absl::CancelledError("stopped, as asked, before the work was done");
}

bool StopToken::WaitFor(absl::Duration duration) const {
  const State never;
  const State& state = state_ == nullptr ? never : *state_;
  const SystemClock clock;
  const absl::Duration end = clock.Monotonic() + duration;
  MutexLock lock(&state.mutex);
  while (!state.requested.load(std::memory_order_acquire)) {
    const absl::Duration left = end - clock.Monotonic();
    if (left <= absl::ZeroDuration()) return false;
    // The system's clock has no room for an infinite wait.
    state.changed.WaitFor(&state.mutex, std::min(left, absl::Hours(1)));
  }
  return true;
}

void StopSource::RequestStop() const {
  MutexLock lock(&state_->mutex);  // So that it cannot be raised between a waiter's look and its wait.
  state_->requested.store(true, std::memory_order_release);
  state_->changed.SignalAll();
}

}  // namespace luthier::base
