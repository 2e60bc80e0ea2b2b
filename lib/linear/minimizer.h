#ifndef LUTHIER_LIB_LINEAR_MINIMIZER_H_
#define LUTHIER_LIB_LINEAR_MINIMIZER_H_

#include <Eigen/Core>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace luthier::linear {

// Relative rounding error of f that decrease tests must tolerate.
inline constexpr double kValueNoise = 1e-13;

// State that a solver of min f(x) reports after each iteration.
enum class SolveState {
  kRunning,
  kConverged,  // The gradient is as small as asked for.
  kPrecision,  // No further step lowers f in floating point.
  kNonFinite,  // f or its gradient is not finite, at the start or at all points of a line search. x
               // is the last finite iterate, or the start.
};

// Returns the largest |v_j| / scale_j; NaN if an entry is NaN. `scale` has entries > 0; empty means
// 1.
inline double LargestEntry(const Eigen::VectorXd& v, const Eigen::VectorXd& scale = Eigen::VectorXd()) {
  if (v.size() == 0) return 0.0;
  if (scale.size() == 0) return v.cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
  return v.cwiseQuotient(scale).cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
}

// Returns f(x) and writes its gradient to the second argument. May return CANCELLED if it is long.
using ValueAndGradient = absl::FunctionRef<absl::StatusOr<double>(const Eigen::VectorXd&, Eigen::VectorXd*)>;

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_MINIMIZER_H_
