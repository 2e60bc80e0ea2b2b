#ifndef LUTHIER_LIB_WIRE_RETRY_H_
#define LUTHIER_LIB_WIRE_RETRY_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/backoff.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

// Decides how often a client sends a call again. base/retry_advice.h says what a failure means, base/backoff.h how long
// to wait.
namespace luthier::wire {

// Waits that can be cut short.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  // Returns false if it was interrupted: give up.
  virtual bool Sleep(absl::Duration duration) = 0;
};

// Sleeps for real until Interrupt(). Thread-safe; Interrupt() is not for signal handlers.
class InterruptibleSleeper final : public Sleeper {
 public:
  bool Sleep(absl::Duration duration) override;
  // Every sleep, now and later, returns false.
  void Interrupt();

 private:
  base::Mutex mutex_;
  base::CondVar wake_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

// Bounds the extra traffic of a client whose server is in trouble: each answer earns a tenth of a retry, at most ten
// are saved up (and are there at the start). Thread-safe.
class RetryBudget {
 public:
  bool TrySpend();
  void Earn();

 private:
  base::Mutex mutex_;
  int tenths_ ABSL_GUARDED_BY(mutex_) = kMaxTenths;
  static constexpr int kMaxTenths = 100;
};

struct RetryPolicy {
  // Attempts in all. Those that fail with kFewTimes are five at most.
  int max_attempts = 5;
  // No attempt begins later than this after the first one.
  absl::Duration give_up_after = absl::InfiniteDuration();
  // Spent before each retry when given; must outlive the call.
  RetryBudget* budget = nullptr;

  // Complete, Fail, Release, Report: a result is worth more than a day of patience.
  static RetryPolicy Finish() {
    return {.max_attempts = 1'000'000, .give_up_after = absl::Hours(24), .budget = nullptr};
  }
};

// Calls `attempt` until it answers or the policy gives up; returns its last status. Interrupted sleeps give up at once.
absl::Status Retry(const RetryPolicy& policy, base::Backoff backoff, const base::Clock& clock, Sleeper& sleeper,
                   absl::FunctionRef<absl::Status()> attempt);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_RETRY_H_
