#ifndef LUTHIER_LIB_BILEVEL_WEIGHTED_RIDGE_H_
#define LUTHIER_LIB_BILEVEL_WEIGHTED_RIDGE_H_

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Ridge regression on a series that changes: recent rows weigh more (Bengio 2000, section 2).
//   h(w, b) = 1/2 sum_t u_t (x_t'w + b - y_t)^2 + 1/2 sum_j l2_j w_j^2
//   u_t = n s_t / sum s,    s_t = 1 / (1 + exp(-slope (time_t - center)))
// with times in [0, 1]. Rows before the center count little, those behind it nearly 1, over a width of 1 / slope.
namespace luthier::bilevel {

struct Recency {
  double slope = 1.0;  // >= 0; 0: all rows count the same.
  double center = 0.5;
};

// Returns u: n entries with mean 1.
Eigen::VectorXd RecencyWeights(const Eigen::VectorXd& time, const Recency& recency);

struct WeightedRidgeFit {
  bool singular = false;    // The system has no solution up to rounding; nothing else is set.
  Eigen::VectorXd weights;  // p
  double intercept = 0.0;
  // With held-out rows: derivatives of their mean squared error by ln l2_j (p), ln slope and the center itself.
  Eigen::VectorXd gradient;
  double relative_gradient = 0.0;  // |grad h| over that at zero weights.
};

// The rows of one fold. `points` is n x p. The arguments must outlive it. Immutable.
class WeightedRidge {
 public:
  WeightedRidge(const Eigen::MatrixXd* points, const Eigen::VectorXd* target, const Eigen::VectorXd* time,
                bool intercept)
      : points_(points), target_(target), time_(time), intercept_(intercept) {}

  // Trains by Cholesky's factor, O(n p^2). `l2` has p entries > 0. With `held_out` (m x p, m >= 1, with their targets)
  // it differentiates, too. Returns CANCELLED when stopped.
  absl::StatusOr<WeightedRidgeFit> Fit(const Eigen::VectorXd& l2, const Recency& recency,
                                       const Eigen::MatrixXd* held_out, const Eigen::VectorXd* held_out_target,
                                       const base::StopToken& stop) const;

 private:
  const Eigen::MatrixXd* const points_;
  const Eigen::VectorXd* const target_;
  const Eigen::VectorXd* const time_;
  const bool intercept_;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_WEIGHTED_RIDGE_H_
