#include "lib/objectives/cancellation.h"

#include "lib/base/clock.h"

namespace luthier::objectives {

void Cancellation::Cancel() {
  base::MutexLock lock(&mutex_);  // So that the flag cannot rise between a waiter's look and its wait.
  flag_.store(true, std::memory_order_release);
  changed_.SignalAll();
}

bool Cancellation::WaitFor(absl::Duration duration) const {
  const base::SystemClock clock;
  const absl::Duration end = clock.Monotonic() + duration;
  base::MutexLock lock(&mutex_);
  while (!cancelled()) {
    const absl::Duration left = end - clock.Monotonic();
    if (left <= absl::ZeroDuration()) break;
    changed_.WaitFor(&mutex_, left);
  }
  return cancelled();
}

}  // namespace luthier::objectives
