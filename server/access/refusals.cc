#include "server/access/refusals.h"

namespace luthier::access {

Refusals::Verdict Refusals::Count(const std::string& address) {
  const absl::Duration now = clock_->Monotonic();
  base::MutexLock lock(&mutex_);
  if (minutes_.size() >= kMaxAddresses && minutes_.count(address) == 0) {
    for (auto it = minutes_.begin(); it != minutes_.end();) {
      it = now - it->second.begin >= absl::Minutes(1) ? minutes_.erase(it) : std::next(it);
    }
  }
  const bool known = minutes_.count(address) > 0;
  Minute& minute = minutes_[known || minutes_.size() < kMaxAddresses ? address : ""];
  Verdict verdict;
  ++minute.untold;
  if (minute.count == 0 || now - minute.begin >= absl::Minutes(1)) {
    minute.begin = now;
    minute.count = 0;
    verdict.times = minute.untold;
    minute.untold = 0;
  }
  if (++minute.count > kAtOnce) verdict.delay = absl::Seconds(1);
  return verdict;
}

}  // namespace luthier::access
