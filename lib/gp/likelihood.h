#ifndef LUTHIER_LIB_GP_LIKELIHOOD_H_
#define LUTHIER_LIB_GP_LIKELIHOOD_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/derivatives.h"
#include "lib/kernels/stationary.h"
#include "lib/math/triangular_blocks.h"

// Notation: C = K + sigma_n^2 I (n x n), L L' = C, y~ = y - m, alpha = C^-1 y~, kappa_i = [C^-1]_ii. With m observed
// slopes there are N = n + m rows, the slopes' after the values': K holds covariances of derivatives, the noise of a
// slope row is sigma_g^2 plus its own extra variance, and the mean m is taken off the values only.
namespace luthier::gp {

// Derivatives with respect to ln l_c, ln s_f^2, ln of the kernel's shape parameter, ln sigma_n^2, ln sigma_g^2 and m.
struct LikelihoodGradient {
  Eigen::VectorXd log_lengthscales;
  double log_signal_variance = 0.0;
  double log_shape_parameter = 0.0;
  double log_noise_variance = 0.0;
  double log_slope_noise_variance = 0.0;
  double mean = 0.0;
};

// Computes how well hyperparameters explain one data set. Holds the data and the work space of an evaluation, so that
// repeated evaluations allocate nothing of size n^2: use one object a thread. Evaluations poll `stop` after every part
// and return CANCELLED once it is raised; a cancelled evaluation does not change the next one.
class Likelihood {
 public:
  // x: n x d, rows are points in the unit cube, finite. y: n, finite, standardised. n >= 0.
  // slopes: valid; then the kernel's family has slopes. Without any, everything is as if slopes did not exist.
  Likelihood(kernels::KernelShape shape, Eigen::MatrixXd x, Eigen::VectorXd y, Slopes slopes = {});

  const kernels::KernelShape& shape() const { return shape_; }
  Eigen::Index size() const { return y_.size(); }
  Eigen::Index slopes() const { return slopes_.size(); }

  // Returns the likelihood of some of the values alone, without slopes. rows: different indices below size().
  Likelihood Subset(const std::vector<Eigen::Index>& rows) const;

  // ln p(y | X, theta) = -y~' alpha / 2 - sum_i ln L_ii - n/2 ln 2 pi (Rasmussen & Williams 2006, eq. 5.8), and its
  // gradient tr((alpha alpha' - C^-1) dC/dtheta)/2 (eq. 5.9) when asked for. -inf, the gradient left as it was, when C
  // is not numerically positive definite. O(n^3/3), with gradient O(n^3 + n^2 d): C^-1 is formed once, no pass per
  // column.
  absl::StatusOr<double> Marginal(const Hyperparameters& theta, LikelihoodGradient* gradient,
                                  const base::StopToken& stop);

  // The same with the mean replaced by the maximiser of ln p(y | m) - m^2/2 (a standard normal prior on m):
  //   m = 1' C^-1 y / (1' C^-1 1 + 1),
  // which is written to theta->mean. Returns ln p(y | m) - m^2/2; its gradient in the other parameters is Marginal's at
  // that m, and in m it is 0.
  absl::StatusOr<double> MarginalOverMean(Hyperparameters* theta, LikelihoodGradient* gradient,
                                          const base::StopToken& stop);

 private:
  // Factors C into k_ (and fills slope_ if asked to). Returns false if C is not positive definite.
  absl::StatusOr<bool> FactorCovariance(const Hyperparameters& theta, bool with_slope, const base::StopToken& stop);
  // The value without data: 0, with gradient 0.
  double WithoutData(LikelihoodGradient* gradient) const;
  absl::StatusOr<double> Evaluate(Hyperparameters* theta, bool fit_mean, LikelihoodGradient* gradient,
                                  const base::StopToken& stop);
  // Returns two columns: y~, and 1 for values, 0 for slopes.
  Eigen::VectorXd Targets(double mean) const;
  Eigen::VectorXd MeanWeights() const;
  // sum_i w_i noise_i over rows, split: the values', sigma_g^2's and the slopes' own.
  struct NoiseTerms {
    double values, slopes, extra;
  };
  NoiseTerms SplitNoise(const Hyperparameters& theta, const Eigen::VectorXd& w) const;
  // Contracts the symmetric weights in the lower triangle of weights_ with the derivatives of K by the kernel's
  // parameters.
  absl::Status ContractKernel(const Hyperparameters& theta, LikelihoodGradient* gradient, const base::StopToken& stop);

  kernels::KernelShape shape_;
  Eigen::MatrixXd x_;
  Eigen::VectorXd y_;
  Slopes slopes_;
  kernels::ObservedRows observed_;                   // With slopes only.
  Eigen::MatrixXd z_, k_, slope_, weights_, upper_;  // upper_: L^-T.
  math::TriangularSpace space_;
};

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_LIKELIHOOD_H_
