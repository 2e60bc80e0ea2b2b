#include "worker/runtime/contact.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/retry_advice.h"
#include "worker/runtime/log_text.h"

namespace luthier::worker {

void Contact::Note(const absl::Status& status) {
  const bool away = base::NobodyAnswered(status);
  if (!away && !status.ok()) return;
  {
    const base::MutexLock lock(&mutex_);
    if (away_ == away) return;
    away_ = away;
  }
  if (away) return base::LogWarning("coordinator_away", {{"error", ErrorText(status)}});
  Hurry();
  base::LogInfo("coordinator_back");
}

bool Contact::Drain() {
  {
    const base::MutexLock lock(&mutex_);
    if (drain_deadline_ < absl::InfiniteDuration()) return false;
    drain_deadline_ = clock_->Monotonic() + options_.drain_timeout;
  }
  Hurry();
  return true;
}

void Contact::Hurry() {
  {
    const base::MutexLock lock(&mutex_);
    ++hurry_;
    changed_.SignalAll();
  }
  hurried_();
}

absl::Duration Contact::drain_deadline() const {
  const base::MutexLock lock(&mutex_);
  return drain_deadline_;
}

uint64_t Contact::hurry() const {
  const base::MutexLock lock(&mutex_);
  return hurry_;
}

absl::Duration Contact::GiveUpTime(absl::Duration start) const {
  const absl::Duration usual = start + options_.delivery_timeout;
  if (drain_deadline_ == absl::InfiniteDuration()) return usual;
  return std::min(usual, std::max(start, drain_deadline_) + options_.drain_delivery_timeout);
}

bool Contact::WaitToRetry(absl::Duration start, uint64_t hurry, absl::Duration wait) {
  const base::MutexLock lock(&mutex_);
  const absl::Duration until = clock_->Monotonic() + wait;
  for (;;) {
    const absl::Duration now = clock_->Monotonic();
    const absl::Duration give_up = GiveUpTime(start);
    if (now >= give_up) return false;
    if (now >= until || hurry_ != hurry) return true;
    clock_->WaitUntil(&mutex_, &changed_, std::min(until, give_up));
  }
}

}  // namespace luthier::worker
