#include "lib/linear/conjugate_gradient.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::linear {
namespace {
using Eigen::VectorXd;
constexpr int kTrueResidualEvery = 50;
constexpr int kMaxFruitless = 3;
}  // namespace

absl::StatusOr<CgResult> SolveCg(absl::FunctionRef<absl::StatusOr<VectorXd>(const VectorXd&)> multiply,
                                 const VectorXd& b, const VectorXd& diagonal, const VectorXd& x0,
                                 const CgOptions& options) {
  LUTHIER_CHECK(diagonal.size() == 0 || diagonal.size() == b.size());
  LUTHIER_CHECK(x0.size() == 0 || x0.size() == b.size());
  const int limit = options.max_iterations > 0 ? options.max_iterations
                                               : static_cast<int>(std::max<Eigen::Index>(100, 10 * b.size()));
  CgResult result;
  VectorXd r = b;
  if (x0.size() == 0) {
    result.x = VectorXd::Zero(b.size());
  } else {
    result.x = x0;
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, multiply(x0));
    r -= product;
    ++result.iterations;
    if (!r.allFinite()) {  // The start is of no use.
      result.x.setZero();
      r = b;
    }
  }
  bool r_is_true = true;
  double best = INFINITY;  // Smallest true residual seen.
  int fruitless = 0;       // True residuals in a row without progress.
  VectorXd direction;
  double rz = 0.0;
  for (int k = 0;; ++k) {
    LUTHIER_RETURN_IF_ERROR(options.stop.Poll());
    const bool claimed = !r_is_true && r.norm() <= options.tolerance;
    if (claimed && !options.verify) {
      result.outcome = CgOutcome::kConverged;
      result.residual_norm = r.norm();
      return result;
    }
    if (claimed || (!r_is_true && k % kTrueResidualEvery == 0)) {
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, multiply(result.x));
      r = b - product;
      ++result.iterations;
      r_is_true = true;
    }
    if (r_is_true) {
      const double norm = r.norm();
      if (norm <= options.tolerance) {
        result.outcome = CgOutcome::kConverged;
        break;
      }
      if (norm < 0.9 * best) {
        best = norm;
        fruitless = 0;
      } else if (norm <= 1e-6 * b.norm()) {
        ++fruitless;
      }
      if (fruitless >= kMaxFruitless) {
        result.outcome = CgOutcome::kPrecision;
        break;
      }
      // The recursion has drifted off, so directions that are conjugate under it are of no use. Otherwise they are
      // kept, because a restart costs as many iterations as the matrix has distinct eigenvalues.
      if (claimed) direction.resize(0);
    }
    if (k >= limit) {
      result.outcome = CgOutcome::kIterationLimit;
      break;
    }
    const VectorXd z = options.precondition != nullptr ? (*options.precondition)(r)
                       : diagonal.size() == 0          ? r
                                                       : VectorXd(r.cwiseQuotient(diagonal));
    const double rz_new = r.dot(z);
    if (direction.size() == 0) {
      direction = z;
    } else {
      direction = z + (rz_new / rz) * direction;
    }
    rz = rz_new;
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, multiply(direction));
    ++result.iterations;
    const double curvature = direction.dot(product);
    if (!std::isfinite(curvature) || !std::isfinite(rz)) {
      result.outcome = CgOutcome::kNonFinite;
      break;
    }
    if (curvature <= 0.0) {
      result.outcome = rz == 0.0 ? CgOutcome::kPrecision : CgOutcome::kIndefinite;
      break;
    }
    const double step = rz / curvature;
    result.x += step * direction;
    r -= step * product;
    r_is_true = false;
  }
  if (!r_is_true) {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, multiply(result.x));
    r = b - product;
    ++result.iterations;
  }
  result.residual_norm = r.norm();
  return result;
}

}  // namespace luthier::linear
