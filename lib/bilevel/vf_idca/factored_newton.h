#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_FACTORED_NEWTON_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_FACTORED_NEWTON_H_

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/matrix_vf_idca.h"

// Interior-point method for the two problems of a step of VF-iDCA with Gamma = A B', A and B of few columns.
namespace luthier::bilevel {

// The terms that the problem of a step adds to the lower problem.
struct FactoredStep {
  Eigen::VectorXd weights;   // w_k
  Eigen::MatrixXd low_rank;  // Gamma_k
  Eigen::VectorXd bounds;    // r_k
  Eigen::VectorXd gamma;     // Multipliers at r_k.
  double cut = 0.0;          // f <= v(r_k)
  double alpha = 1.0, rho = 1e-3, least_bound = 1e-8;
};

struct FactoredPoint {
  Eigen::MatrixXd a, b;  // Factors of Gamma: rows x rank, cols x rank.
  Eigen::VectorXd weights;
  Eigen::VectorXd r;  // Bounds; only the problem of a step changes them.
  double t = 0.0;     // Bound of all violations, only for the problem of a step.
  // Multipliers of the penalties' bounds, in the order of the penalties, and of V_k <= t.
  Eigen::VectorXd multipliers;
  double cut_multiplier = 0.0;
};

// Minimises over w, A and B strictly inside the bounds r of `start`; if `step` is not null, over r, too. `start` is
// moved inside the bounds. Ends at a surrogate gap of `tolerance`. The product is not convex: the result is a solution
// only if the caller proves it; otherwise a larger rank is needed. Returns CANCELLED when stopped.
absl::StatusOr<FactoredPoint> MinimizeFactored(const MatrixProblem& problem, const FactoredStep* step,
                                               FactoredPoint start, double tolerance, const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_FACTORED_NEWTON_H_
