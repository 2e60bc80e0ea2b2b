#ifndef LUTHIER_LIB_BILEVEL_RIDGE_TARGETS_H_
#define LUTHIER_LIB_BILEVEL_RIDGE_TARGETS_H_

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/ridge.h"

// Ridge regression of several targets that share their columns and penalties: one factor serves all of them.
//   h(W) = 1/2 |X~ W - Y|^2 + 1/2 sum_j l2_j |W_j:|^2,    H = X~'X~ + diag(l2) for each column of W
namespace luthier::bilevel {

struct RidgeTargetsFit {
  bool singular = false;    // The system has no solution up to rounding; nothing else is set.
  Eigen::MatrixXd weights;  // p x targets
  // With held-out rows: derivatives of their mean squared error, over rows and targets, by ln l2_j (p).
  Eigen::VectorXd gradient;
  double relative_gradient = 0.0;  // |grad h| over that at zero weights.
};

// Returns X~ V, n x targets. Returns CANCELLED when stopped.
absl::StatusOr<Eigen::MatrixXd> MultiplyTargets(const LeastSquaresData& data, const Eigen::MatrixXd& v,
                                                const base::StopToken& stop);

// Returns X~' R, p x targets. Returns CANCELLED when stopped.
absl::StatusOr<Eigen::MatrixXd> MultiplyTargetsTransposed(const LeastSquaresData& data, const Eigen::MatrixXd& r,
                                                          const base::StopToken& stop);

// Trains by one Cholesky factor, O(p^3 / 3), with O(p^2) for each target and derivative. `gram`: X~'X~ (p x p).
// `product`: X~'Y (p x targets). `l2`: p entries > 0. With `held_out` (at least one row, its targets in
// `held_out_targets`) differentiates, too. Returns CANCELLED when stopped.
absl::StatusOr<RidgeTargetsFit> FitRidgeTargets(const Eigen::MatrixXd& gram, const Eigen::MatrixXd& product,
                                                const Eigen::VectorXd& l2, const LeastSquaresData* held_out,
                                                const Eigen::MatrixXd* held_out_targets, const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_RIDGE_TARGETS_H_
