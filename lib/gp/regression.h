#ifndef LUTHIER_LIB_GP_REGRESSION_H_
#define LUTHIER_LIB_GP_REGRESSION_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/derivatives.h"
#include "lib/kernels/stationary.h"
#include "lib/math/cholesky.h"

namespace luthier::gp {

// Marginal posterior of f (observation noise not added) at q points: means and variances, in units of y and y^2.
struct Posterior {
  Eigen::VectorXd mean;
  Eigen::VectorXd variance;
};

// Posterior at one point, with derivatives along each of the d coordinates.
struct PointPosterior {
  double mean = 0.0;
  double variance = 0.0;
  Eigen::VectorXd mean_gradient;
  Eigen::VectorXd variance_gradient;
};

// Posterior of the gradient of f at a point: d, and d x d (symmetric, not clamped).
struct GradientPosterior {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
};

// Gaussian-process regression with fixed hyperparameters (Rasmussen & Williams 2006, algorithm 2.1).
//   mu(x) = m + k(x)' C^-1 (y - m),  var(x) = s_f^2 - |L^-1 k(x)|^2,  L L' = C = K + sigma_n^2 I
// Variances are clamped below at 1e-12 s_f^2, where their gradient is 0. Points can be appended and dropped at the end,
// e.g. for trials still running. Const members: any thread.
//
// Slopes may be observed beside values ("first-order" data): each is one more row of C, with the covariances of
// derivatives, the noise sigma_g^2 and its own extra variance. N: rows, n values among them. Without slopes row i is
// value i, and nothing depends on slopes existing.
class Regression {
 public:
  // x: n x d (rows are points), y: n; n = 0 is the prior. slopes: their rows follow the values'; any slope needs a
  // family that has slopes. Returns std::nullopt if x, y, slopes or theta is not finite (or a direction is 0, or a
  // length not positive). Finite inputs always succeed, because the top rung of the jitter ladder, 1e-4 s_f^2, exceeds
  // any round-off of K. Takes O(N^3/3 + N^2 d). Returns CANCELLED if `stop` was raised.
  static absl::StatusOr<std::optional<Regression>> Fit(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                                       const Eigen::Ref<const Eigen::MatrixXd>& x,
                                                       const Eigen::Ref<const Eigen::VectorXd>& y, const Slopes& slopes,
                                                       const base::StopToken& stop);

  // Adds one observation at d-vector x in O(n^2). If the new row is numerically dependent on the others, the whole
  // matrix is factored anew with jitter. Returns false if x or y is not finite, and CANCELLED if `stop` was raised;
  // neither changes anything.
  absl::StatusOr<bool> Append(const Eigen::Ref<const Eigen::VectorXd>& x, double y, const base::StopToken& stop);
  // Adds the slope along `direction` (d) at point `point` (< size()) in the same way.
  absl::StatusOr<bool> AppendSlope(Eigen::Index point, const Eigen::Ref<const Eigen::VectorXd>& direction, double slope,
                                   double extra_variance, const base::StopToken& stop);
  // Replaces the mean by the maximiser of ln p(y | m) - m^2/2, 1' C^-1 y / (1' C^-1 1 + 1): for hyperparameters that
  // were found on fewer data. O(n^2).
  void FitMean();
  // Drops the last `count` rows.
  void PopBack(int count);

  // Numbers of values and of all rows.
  Eigen::Index size() const { return y_.size(); }
  Eigen::Index rows() const { return y_.size() + slope_values_.size(); }
  Eigen::Index columns() const { return kernel_.shape().columns(); }
  const Hyperparameters& hyperparameters() const { return theta_; }
  const kernels::StationaryKernel& kernel() const { return kernel_; }
  // Amount added to the diagonal beyond the noise variance; 0 almost always.
  double jitter() const { return factor_.jitter(); }
  // Returns the data, with points scaled by kernel().Scale(): n x d and n.
  const Eigen::MatrixXd& scaled_points() const { return z_; }
  const Eigen::VectorXd& outputs() const { return y_; }
  // Return what each row observed, a value or a slope, and the noise variance of each row without the jitter (N).
  Eigen::VectorXd Targets() const;
  Eigen::VectorXd NoiseVariances() const;
  // Returns the kind of each row, with points and directions scaled. It has no rows if there are no slopes.
  const kernels::ObservedRows& observed() const { return observed_; }
  // cov(row, f(x_j)) at scaled points (q x d): N x q. And at one, with the derivatives along the coordinates of x: N
  // and N x d.
  void CrossCovariance(const Eigen::Ref<const Eigen::MatrixXd>& scaled, Eigen::MatrixXd* k) const;
  void PointCovariance(const Eigen::RowVectorXd& scaled, Eigen::VectorXd* k, Eigen::MatrixXd* jacobian) const;
  // L L' = C, with the jitter: N x N.
  const math::Cholesky& factor() const { return factor_; }
  // C^-1 b for N-vector b (C with the jitter). O(N^2).
  Eigen::VectorXd SolveCovariance(const Eigen::Ref<const Eigen::VectorXd>& b) const { return factor_.Solve(b); }

  // x: q x d. O(q n (n + d)).
  Posterior Predict(const Eigen::Ref<const Eigen::MatrixXd>& x) const;
  // Means only, O(q n d).
  Eigen::VectorXd PredictMean(const Eigen::Ref<const Eigen::MatrixXd>& x) const;
  // O(n^2 + n d).
  PointPosterior PredictWithGradient(const Eigen::Ref<const Eigen::VectorXd>& x) const;
  // Returns the posterior of the gradient of f. The kernel's family must have slopes. O(N^2 d).
  GradientPosterior PredictGradient(const Eigen::Ref<const Eigen::VectorXd>& x) const;
  // Joint posterior covariance of f at q points, q x q, symmetric; its diagonal is not clamped. O(q n (n + q)). Returns
  // CANCELLED if `stop` was raised.
  absl::StatusOr<Eigen::MatrixXd> JointCovariance(const Eigen::Ref<const Eigen::MatrixXd>& x,
                                                  const base::StopToken& stop) const;

 private:
  Regression(kernels::StationaryKernel kernel, Hyperparameters theta)
      : kernel_(std::move(kernel)), theta_(std::move(theta)) {}
  bool has_slopes() const { return !observed_.rows.empty(); }
  // Lists the scaled points and the rows, values first, in observed_, unless that has been done.
  void ListRows();
  void ForgetRows(Eigen::Index count);
  // Adds a row that is among the data already to the factor.
  absl::StatusOr<bool> Extend(const Eigen::Ref<const Eigen::VectorXd>& cross, double diagonal,
                              const base::StopToken& stop);
  absl::StatusOr<bool> Refactor(const base::StopToken& stop);
  void UpdateAlpha();

  kernels::StationaryKernel kernel_;
  Hyperparameters theta_;
  Eigen::MatrixXd z_;  // n x d, scaled points.
  Eigen::VectorXd y_;
  std::optional<kernels::DerivativeKernel> derivatives_;  // Set only if there are slopes, like the next three.
  kernels::ObservedRows observed_;                        // Its points are z_.
  Eigen::VectorXd slope_values_, slope_extra_;            // m: as observed, and variances beyond sigma_g^2.
  math::Cholesky factor_;
  Eigen::VectorXd alpha_;
};

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_REGRESSION_H_
