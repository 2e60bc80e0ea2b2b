#include "server/coordinator/writer/refusal_delay.h"

#include <algorithm>

namespace luthier::coordinator {
namespace {

const absl::Duration kWindow = absl::Milliseconds(100);
constexpr double kGrowth = 1.5, kShrinking = 0.95;

}  // namespace

void RefusalDelay::Look(absl::Duration now) {
  if (now - since_ < kWindow) return;
  if (now - since_ > 10 * kWindow)
    delay_ = kLeast;  // That was another rush.
  else if (8 * refused_ > taken_)
    delay_ = std::min(kMost, delay_ * kGrowth);
  else if (32 * refused_ < taken_)
    delay_ = std::max(kLeast, delay_ * kShrinking);
  since_ = now;
  taken_ = refused_ = 0;
}

void RefusalDelay::Taken(absl::Duration now) {
  Look(now);
  ++taken_;
}

absl::Duration RefusalDelay::Refused(absl::Duration now) {
  Look(now);
  ++refused_;
  return delay_;
}

}  // namespace luthier::coordinator
