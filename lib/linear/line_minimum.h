#ifndef LUTHIER_LIB_LINEAR_LINE_MINIMUM_H_
#define LUTHIER_LIB_LINEAR_LINE_MINIMUM_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::linear {

inline constexpr double kMostStep = 1e30;

// Returns the step a in (0, kMostStep] at which a convex function along a line is least, to a slope of a tenth of the
// one at a = 0, which is negative; 0 if that is not so. `derivatives` returns the slope at a step and writes the
// curvature there. Polls `stop` before each call.
absl::StatusOr<double> FindLineMinimum(absl::FunctionRef<double(double step, double* curvature)> derivatives,
                                       const base::StopToken& stop);

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LINE_MINIMUM_H_
