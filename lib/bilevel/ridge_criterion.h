#ifndef LUTHIER_LIB_BILEVEL_RIDGE_CRITERION_H_
#define LUTHIER_LIB_BILEVEL_RIDGE_CRITERION_H_

#include <Eigen/Core>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/ridge.h"
#include "lib/math/cholesky.h"

// Errors of ridge regression on unseen rows, estimated without held-out rows. With the residuals r = y - X~ w and the
// hat matrix S = X~ H^-1 X~', H = X~'X~ + diag(l2), to which an intercept that is not penalised adds 1/n everywhere:
//   leave-one-out           1/n sum_i (r_i / (1 - S_ii))^2, the mean squared error of n models, each without one row
//   generalized CV (GCV)    1/n sum_i r_i^2 / (1 - tr S / n)^2                           (Golub, Heath & Wahba 1979)
namespace luthier::bilevel {

enum class RidgeCriterion { kHeldOut, kLeaveOneOut, kGcv };

struct RidgeCriterionValue {
  double value = 0.0;
  double degrees_of_freedom = 0.0;  // tr S
  // Derivatives by lambda_g = ln l2_g, one for each penalty of the groups:
  //   dE/dl2_j = -w_j Q_j - sum_i (dE/dS_ii) (H^-1 x_i)_j^2,    H Q = dE/dw at fixed S.
  Eigen::VectorXd gradient;
  Eigen::VectorXd weights;  // Set by EvaluateCriterionByRows alone.
};

// A ridge regression whose error is to be estimated.
struct RidgeProblem {
  const LeastSquaresData& data;
  const Eigen::VectorXd& l2;  // Penalty of each of the p columns.
  const ColumnPenalties& groups;
  bool intercept = true;
  bool gradient = true;  // True if derivatives are wanted, too.
};

// Evaluates kLeaveOneOut or kGcv. `factor` is that of H; `weights` has p entries. The value is infinite or NaN if a row
// has S_ii = 1, since no other row then says anything about it. O(n p^2). Returns CANCELLED when stopped.
absl::StatusOr<RidgeCriterionValue> EvaluateCriterion(RidgeCriterion criterion, const RidgeProblem& problem,
                                                      const math::Cholesky& factor, const Eigen::VectorXd& weights,
                                                      const base::StopToken& stop);

// The same from the n x n matrix G = X~ diag(l2)^-1 X~' = `kernel`, without cancellation at small penalties, where r_i
// and 1 - S_ii both vanish. With P = (G + I)^-1, with an intercept orthogonal to the constant residual, r = P y,
// 1 - S_ii = P_ii and w = diag(l2)^-1 X~' r, and the derivatives are
//   dE/dlambda_g = sum over columns j of g  x_j' (r (P rho)' - P diag(eta) P) x_j / l2_j,   rho = dE/dr, eta =
//   -dE/dP_ii.
// Returns std::nullopt if the matrix cannot be factored. O(n^3 + n * entries).
absl::StatusOr<std::optional<RidgeCriterionValue>> EvaluateCriterionByRows(RidgeCriterion criterion,
                                                                           const RidgeProblem& problem,
                                                                           Eigen::MatrixXd kernel,
                                                                           const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_RIDGE_CRITERION_H_
