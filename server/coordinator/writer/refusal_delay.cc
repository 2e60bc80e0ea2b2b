#include "server/coordinator/writer/refusal_delay.h"

#include <algorithm>

namespace luthier::coordinator {
namespace {

const absl::Duration kWindow = absl::Milliseconds(100), kMemory = absl::Seconds(1);
constexpr double kTakenPerReturn = 16.0;
constexpr double kLeastRate = 100.0;  // Operations a second.

}  // namespace

void RefusalDelay::Look(absl::Duration now) {
  const absl::Duration passed = now - since_;
  if (passed < kWindow) return;
  const double rate = static_cast<double>(taken_) / absl::ToDoubleSeconds(passed);
  rate_ += (rate - rate_) * std::min(1.0, absl::FDivDuration(passed, kMemory));
  since_ = now;
  taken_ = 0;
}

void RefusalDelay::Taken(absl::Duration now) {
  Look(now);
  ++taken_;
}

absl::Duration RefusalDelay::Refused(absl::Duration now) {
  Look(now);
  const absl::Duration between = absl::Seconds(kTakenPerReturn / std::max(rate_, kLeastRate));
  next_ = std::min(std::max(next_ + between, now + kLeast), now + kMost);
  return next_ - now;
}

}  // namespace luthier::coordinator
