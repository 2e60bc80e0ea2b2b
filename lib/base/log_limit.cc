#include "lib/base/log_limit.h"

#include <utility>

namespace luthier::base {

std::optional<int64_t> LogLimit::Admit(absl::string_view origin) {
  const absl::Duration now = clock_->Monotonic();
  const MutexLock lock(&mutex_);
  auto found = origins_.find(origin);
  if (found == origins_.end()) found = origins_.emplace(std::string(origin), Origin()).first;
  Origin& entry = found->second;
  if (now < entry.next) {
    ++entry.left_out;
    return std::nullopt;
  }
  entry.next = now + period_;
  return std::exchange(entry.left_out, 0);
}

}  // namespace luthier::base
