#ifndef LUTHIER_WORKER_RUNTIME_WAIT_CLOCK_H_
#define LUTHIER_WORKER_RUNTIME_WAIT_CLOCK_H_

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace luthier::worker {

// A clock on which one can wait together with a condition variable, so that tests need not sleep. Thread-safe.
class WaitClock {
 public:
  virtual ~WaitClock() = default;
  // As base::Clock.
  virtual absl::Duration Monotonic() const = 0;
  // Waits on `cv` until it is signalled or Monotonic() reaches `deadline` (InfiniteDuration: only until signalled). May
  // return early for no reason: wait in a loop around the condition.
  virtual void WaitUntil(base::Mutex* mutex, base::CondVar* cv, absl::Duration deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

class SystemWaitClock final : public WaitClock {
 public:
  absl::Duration Monotonic() const override { return clock_.Monotonic(); }
  void WaitUntil(base::Mutex* mutex, base::CondVar* cv, absl::Duration deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  base::SystemClock clock_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_WAIT_CLOCK_H_
