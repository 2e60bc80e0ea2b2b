#include "lib/wire/retry.h"

#include <algorithm>

#include "lib/base/retry_advice.h"

namespace luthier::wire {

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

absl::Status Retry(const RetryPolicy& policy, base::Backoff backoff, const base::Clock& clock, Sleeper& sleeper,
                   absl::FunctionRef<absl::Status()> attempt) {
  constexpr int kFewTimes = 5;
  const absl::Duration begin = clock.Monotonic();
  int odd = 0;  // Failures with the advice kFewTimes.
  for (int made = 1;; ++made) {
    absl::Status status = attempt();
    if (status.ok() || !base::MayRepeat(base::AdviceFor(status))) {
      if (policy.budget != nullptr) policy.budget->Earn();
      return status;
    }
    if (base::AdviceFor(status) == base::RetryAdvice::kFewTimes && ++odd >= kFewTimes) return status;
    if (made >= policy.max_attempts) return status;
    const absl::Duration delay = backoff.Next(status);
    if (clock.Monotonic() + delay - begin > policy.give_up_after) return status;
    if (policy.budget != nullptr && !policy.budget->TrySpend()) return status;
    if (!sleeper.Sleep(delay)) return status;
  }
}

}  // namespace luthier::wire
