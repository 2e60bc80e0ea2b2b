#include "lib/base/backoff.h"

#include <algorithm>
#include <optional>

#include "lib/base/error.h"
#include "lib/base/retry_advice.h"

namespace luthier::base {
namespace {

constexpr absl::Duration kFirstCeiling = absl::Milliseconds(100);
constexpr absl::Duration kMaxWait = absl::Seconds(10);
constexpr absl::Duration kMaxWaitUnreached = absl::Seconds(1);
constexpr int kMaxDoublings = 10;  // Ends beyond kMaxWait, and far below an overflow.

}  // namespace

absl::Duration Backoff::Next(const absl::Status& status) {
  // A call that ran into its deadline may have reached a server that is overloaded.
  const bool unreached = absl::IsUnavailable(status) && NobodyAnswered(status);
  const absl::Duration ceiling = kFirstCeiling * (1 << failures_);
  failures_ = std::min(failures_ + 1, kMaxDoublings);
  const absl::Duration wait = std::min(ceiling, unreached ? kMaxWaitUnreached : kMaxWait) * random_.UniformOpen();
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || !detail->retry_delay) return wait;
  return std::max(wait, std::min(*detail->retry_delay, kMaxServerDelay));
}

}  // namespace luthier::base
