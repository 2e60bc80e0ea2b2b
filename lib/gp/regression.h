#ifndef LUTHIER_LIB_GP_REGRESSION_H_
#define LUTHIER_LIB_GP_REGRESSION_H_

#include <optional>

#include "Eigen/Core"
#include "lib/gp/hyperparameters.h"
#include "lib/kernels/stationary.h"
#include "lib/math/cholesky.h"

namespace luthier::gp {

// Marginal posterior of f (observation noise not added) at q points: means and variances, in units of y and y^2.
struct Posterior {
  Eigen::VectorXd mean;
  Eigen::VectorXd variance;
};

// The same at one point, with derivatives along each of the d coordinates.
struct PointPosterior {
  double mean = 0.0;
  double variance = 0.0;
  Eigen::VectorXd mean_gradient;
  Eigen::VectorXd variance_gradient;
};

// Gaussian-process regression with fixed hyperparameters (Rasmussen & Williams 2006, algorithm 2.1).
//   mu(x) = m + k(x)' C^-1 (y - m),  var(x) = s_f^2 - |L^-1 k(x)|^2,  L L' = C = K + sigma_n^2 I
// Variances are clamped below at 1e-12 s_f^2, where their gradient is 0. Points can be appended and dropped at the end,
// e.g. for trials still running. Const members: any thread.
class Regression {
 public:
  // x: n x d (rows are points), y: n; n = 0 is the prior. Absent when x, y or theta is not finite (or a length is not
  // positive); finite inputs always succeed, because the top rung of the jitter ladder, 1e-4 s_f^2, exceeds any
  // round-off of K. O(n^3/3 + n^2 d).
  static std::optional<Regression> Fit(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                       const Eigen::Ref<const Eigen::MatrixXd>& x,
                                       const Eigen::Ref<const Eigen::VectorXd>& y);

  // Adds one observation at d-vector x. O(n^2). When the new row is numerically dependent on the others, the whole
  // matrix is factored anew with jitter. False, changing nothing, when x or y is not finite.
  bool Append(const Eigen::Ref<const Eigen::VectorXd>& x, double y);
  // Replaces the mean by the maximiser of ln p(y | m) - m^2/2, 1' C^-1 y / (1' C^-1 1 + 1): for hyperparameters that
  // were found on fewer data. O(n^2).
  void FitMean();
  // Drops the last `count` observations.
  void PopBack(int count);

  Eigen::Index size() const { return y_.size(); }
  Eigen::Index columns() const { return kernel_.shape().columns(); }
  const Hyperparameters& hyperparameters() const { return theta_; }
  const kernels::StationaryKernel& kernel() const { return kernel_; }
  // Added to the diagonal beyond the noise variance; 0 almost always.
  double jitter() const { return factor_.jitter(); }
  // The data, points scaled by kernel().Scale(): n x d and n.
  const Eigen::MatrixXd& scaled_points() const { return z_; }
  const Eigen::VectorXd& outputs() const { return y_; }
  // C^-1 b for n-vector b (C with the jitter). O(n^2).
  Eigen::VectorXd SolveCovariance(const Eigen::Ref<const Eigen::VectorXd>& b) const { return factor_.Solve(b); }

  // x: q x d. O(q n (n + d)).
  Posterior Predict(const Eigen::Ref<const Eigen::MatrixXd>& x) const;
  // Means only, O(q n d).
  Eigen::VectorXd PredictMean(const Eigen::Ref<const Eigen::MatrixXd>& x) const;
  // O(n^2 + n d).
  PointPosterior PredictWithGradient(const Eigen::Ref<const Eigen::VectorXd>& x) const;
  // Joint posterior covariance of f at q points, q x q, symmetric; its diagonal is not clamped.
  Eigen::MatrixXd JointCovariance(const Eigen::Ref<const Eigen::MatrixXd>& x) const;

 private:
  Regression(kernels::StationaryKernel kernel, Hyperparameters theta)
      : kernel_(std::move(kernel)), theta_(std::move(theta)) {}
  bool Refactor();
  void UpdateAlpha();

  kernels::StationaryKernel kernel_;
  Hyperparameters theta_;
  Eigen::MatrixXd z_;  // n x d, scaled points.
  Eigen::VectorXd y_;
  math::Cholesky factor_;
  Eigen::VectorXd alpha_;
};

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_REGRESSION_H_
