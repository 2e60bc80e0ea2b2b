#include "server/access/refusals.h"

namespace luthier::access {

absl::Duration Refusals::Count(const std::string& address) {
  const absl::Duration now = clock_->Monotonic();
  base::MutexLock lock(&mutex_);
  if (minutes_.size() >= kMaxAddresses && minutes_.count(address) == 0) {
    for (auto it = minutes_.begin(); it != minutes_.end();) {
      it = now - it->second.begin >= absl::Minutes(1) ? minutes_.erase(it) : std::next(it);
    }
  }
  const bool known = minutes_.count(address) > 0;
  Minute& minute = minutes_[known || minutes_.size() < kMaxAddresses ? address : ""];
  if (minute.count == 0 || now - minute.begin >= absl::Minutes(1)) minute = {now, 0};
  return ++minute.count > kAtOnce ? absl::Seconds(1) : absl::ZeroDuration();
}

}  // namespace luthier::access
