#include "worker/runtime/wait_clock.h"

#include <algorithm>

namespace luthier::worker {

void SystemWaitClock::WaitUntil(base::Mutex* mutex, base::CondVar* cv, absl::Duration deadline) {
  const absl::Duration wait = deadline - Monotonic();
  if (wait <= absl::ZeroDuration()) return;
  // Waits an hour at a time: far deadlines would overflow std::condition_variable's arithmetic.
  cv->WaitFor(mutex, std::min(wait, absl::Hours(1)));
}

}  // namespace luthier::worker
