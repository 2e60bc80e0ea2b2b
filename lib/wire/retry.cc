#include "lib/wire/retry.h"

#include <algorithm>
#include <optional>

#include "lib/base/error.h"

namespace luthier::wire {

RetryAdvice AdviceFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return RetryAdvice::kUntilAnswered;
    case absl::StatusCode::kResourceExhausted: {
      // Without a delay it is a limit (of ours or of gRPC's message size) that stands.
      const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
      return detail && detail->retry_delay ? RetryAdvice::kUntilAnswered : RetryAdvice::kNever;
    }
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
      return base::GetReason(status).empty() ? RetryAdvice::kFewTimes : RetryAdvice::kNever;
    default:
      return RetryAdvice::kNever;
  }
}

absl::Duration Backoff::Next(const absl::Status& status) {
  absl::Duration ceiling = options_.initial_delay;
  for (int k = 0; k < failures_ && ceiling < options_.max_delay; ++k) ceiling *= 2;
  ++failures_;
  const absl::Duration delay = std::min(ceiling, options_.max_delay) * random_.Uniform();
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  return detail && detail->retry_delay ? std::max(delay, *detail->retry_delay) : delay;
}

bool InterruptibleSleeper::Sleep(absl::Duration duration) {
  const base::MutexLock lock(&mutex_);
  const base::SystemClock clock;
  const absl::Duration until = clock.Monotonic() + duration;
  while (!interrupted_) {
    const absl::Duration left = until - clock.Monotonic();
    if (left <= absl::ZeroDuration()) return true;
    // In slices: an infinite wait does not fit the condition variable's clock.
    wake_.WaitFor(&mutex_, std::min(left, absl::Hours(1)));
  }
  return false;
}

void InterruptibleSleeper::Interrupt() {
  const base::MutexLock lock(&mutex_);
  interrupted_ = true;
  wake_.SignalAll();
}

bool RetryBudget::TrySpend() {
  const base::MutexLock lock(&mutex_);
  if (tenths_ < 10) return false;
  tenths_ -= 10;
  return true;
}

void RetryBudget::Earn() {
  const base::MutexLock lock(&mutex_);
  tenths_ = std::min(tenths_ + 1, kMaxTenths);
}

absl::Status Retry(const RetryPolicy& policy, Backoff backoff, const base::Clock& clock, Sleeper& sleeper,
                   absl::FunctionRef<absl::Status()> attempt) {
  constexpr int kFewAttempts = 5;
  const absl::Duration begin = clock.Monotonic();
  for (int made = 1;; ++made) {
    absl::Status status = attempt();
    const RetryAdvice advice = status.ok() ? RetryAdvice::kNever : AdviceFor(status);
    if (advice == RetryAdvice::kNever) {
      if (policy.budget != nullptr) policy.budget->Earn();
      return status;
    }
    const int limit =
        advice == RetryAdvice::kFewTimes ? std::min(policy.max_attempts, kFewAttempts) : policy.max_attempts;
    if (made >= limit) return status;
    const absl::Duration delay = backoff.Next(status);
    if (clock.Monotonic() + delay - begin > policy.give_up_after) return status;
    if (policy.budget != nullptr && !policy.budget->TrySpend()) return status;
    if (!sleeper.Sleep(delay)) return status;
  }
}

}  // namespace luthier::wire
