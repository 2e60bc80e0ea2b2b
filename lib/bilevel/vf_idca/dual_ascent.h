#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_DUAL_ASCENT_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_DUAL_ASCENT_H_

#include <Eigen/Core>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

// Maximises the dual function of a convex problem over its multipliers mu >= 0 by Newton's method.
namespace luthier::bilevel {

// The dual function D at one mu.
struct DualPoint {
  double value = 0.0;
  Eigen::VectorXd gradient;   // The violations of the constraints by the point that minimises the Lagrangian.
  Eigen::MatrixXd curvature;  // Minus the Hessian, positive semidefinite, where it exists.
  // Gap between the best feasible primal point and the best bound, of all points so far.
  double gap = std::numeric_limits<double>::infinity();
};

struct DualAscentOptions {
  double most = std::numeric_limits<double>::infinity();  // Limit of sum mu.
  double tolerance = 1e-8;                                // The ascent ends at a gap of at most this.
  int max_evaluations = 60;
  // Indices of multipliers that one step changes at most by a factor of ten, up (counted from a hundredth of the
  // largest, if they are smaller) or down. D may be costly where they vanish, and far from the maximum its Hessian is a
  // poor guide.
  std::vector<Eigen::Index> cautious;
};

struct DualAscent {
  Eigen::VectorXd mu;  // The last point that was kept.
  DualPoint point;     // D at mu; `gap` is the last one known.
  int evaluations = 0;
  bool converged = false;  // The gap is at most the tolerance.
};

// Starts at `mu`, which is moved into the set. Returns the errors of `evaluate`.
absl::StatusOr<DualAscent> MaximizeDual(
    absl::FunctionRef<absl::StatusOr<DualPoint>(const Eigen::VectorXd& mu)> evaluate, const Eigen::VectorXd& mu,
    const DualAscentOptions& options);

// Minimises 1/2 y'By - h'y over y >= 0 with sum y <= most, by the primal active-set method from a feasible `y`. `b`:
// positive definite.
Eigen::VectorXd MinimizeOverSimplex(const Eigen::MatrixXd& b, const Eigen::VectorXd& h, double most, Eigen::VectorXd y);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_DUAL_ASCENT_H_
