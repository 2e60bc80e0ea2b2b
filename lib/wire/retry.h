#ifndef LUTHIER_LIB_WIRE_RETRY_H_
#define LUTHIER_LIB_WIRE_RETRY_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/random.h"

// When and how often a call is sent again. Every call of the API may be: reads and heartbeats by nature, writes by
// their request id or token.
namespace luthier::wire {

enum class RetryAdvice {
  kNever,          // The server answered: the same request gets the same answer.
  kFewTimes,       // Perhaps an accident on the way (INTERNAL, UNKNOWN, ABORTED without a reason of ours).
  kUntilAnswered,  // The outcome is unknown, or the server asks for patience.
};

// UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED and RESOURCE_EXHAUSTED with a retry_delay: until answered.
RetryAdvice AdviceFor(const absl::Status& status);

// Full jitter: before attempt k+1 wait a uniform share of min(max_delay, initial_delay·2^(k-1)) (Brooker 2015,
// "Exponential backoff and jitter"), and never less than the server's retry_delay. One object a logical call; not
// thread-safe.
class Backoff {
 public:
  struct Options {
    absl::Duration initial_delay = absl::Milliseconds(100);
    absl::Duration max_delay = absl::Seconds(10);
  };
  explicit Backoff(base::RandomStream random) : Backoff(random, Options()) {}
  Backoff(base::RandomStream random, const Options& options) : random_(random), options_(options) {}

  // How long to wait after the failure `status`.
  absl::Duration Next(const absl::Status& status);
  void Reset() { failures_ = 0; }

 private:
  base::RandomStream random_;
  Options options_;
  int failures_ = 0;
};

// Waits that can be cut short.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  // False: interrupted; give up.
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
  // Attempts in all; kFewTimes is always held to five.
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
absl::Status Retry(const RetryPolicy& policy, Backoff backoff, const base::Clock& clock, Sleeper& sleeper,
                   absl::FunctionRef<absl::Status()> attempt);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_RETRY_H_
