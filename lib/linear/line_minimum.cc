#include "lib/linear/line_minimum.h"

#include <algorithm>
#include <cmath>

#include "lib/base/status_macros.h"

namespace luthier::linear {

absl::StatusOr<double> FindLineMinimum(absl::FunctionRef<double(double step, double* curvature)> derivatives,
                                       const base::StopToken& stop) {
  constexpr double kLineSlope = 0.1;
  constexpr int kMost = 60;
  double curvature = 0.0;
  const double slope0 = derivatives(0.0, &curvature);
  if (!(slope0 < 0.0) || !std::isfinite(slope0)) return 0.0;
  double low = 0.0, high = INFINITY;
  double a = 1.0;
  for (int k = 0; k < kMost; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const double slope = derivatives(a, &curvature);
    if (!std::isfinite(slope)) {
      high = a;
      a = 0.5 * (low + a);
      continue;
    }
    if (std::abs(slope) <= kLineSlope * -slope0) return a;
    (slope < 0.0 ? low : high) = a;
    double next = a - slope / curvature;
    if (!(curvature > 0.0) || !(next > low)) next = std::isfinite(high) ? 0.5 * (low + high) : 8.0 * a;
    if (std::isfinite(high)) {
      if (!(next < high)) next = 0.5 * (low + high);
    } else {
      next = std::min(next, 8.0 * a);  // A loss that is flat far away suggests too long a step.
    }
    if (next > kMostStep) return low;
    a = next;
  }
  return low;
}

}  // namespace luthier::linear
