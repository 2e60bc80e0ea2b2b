#include "lib/objectives/epoch_axis.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace luthier::objectives {
namespace {

// No training has more passes.
constexpr double kMost = 1e15;

}  // namespace

EpochAxis::Point EpochAxis::At(double least) const {
  LUTHIER_CHECK(least >= 0.0);
  Point point;
  point.passes = std::max(goal_, static_cast<int64_t>(std::min(std::floor(least), kMost)));
  if (goal_ == 0) {  // The start, whatever it has cost: nothing is trained yet.
    point.report = true;
    return point;
  }
  const auto crossed = [&](int64_t every) { return point.passes / every > (goal_ - 1) / every; };
  point.report = crossed(report_every_);
  point.checkpoint = crossed(checkpoint_every_);
  point.pause = target_ > 0 && point.passes >= target_;
  point.step = point.passes / report_every_ * report_every_;
  if (point.pause) point.step = std::max(point.step, target_);
  return point;
}

int64_t EpochAxis::LastStep(double most) const {
  const int64_t passes = std::max(done(), static_cast<int64_t>(std::min(std::floor(most), kMost)));
  return target_ > 0 ? std::min(passes, target_) : passes;
}

}  // namespace luthier::objectives
