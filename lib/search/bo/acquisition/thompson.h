#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_THOMPSON_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_THOMPSON_H_

#include <optional>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"
#include "lib/kernels/derivatives.h"
#include "lib/kernels/stationary.h"
#include "lib/search/bo/acquisition/acquisition.h"

// Thompson sampling: a function is drawn from a regression's posterior, and its maximiser is the next proposal. If
// there are several posteriors, the caller picks one at random.
//
// Notation: s_f^2 is the signal variance, s_n^2 the noise variance, M the number of features, d that of coordinates, n
// that of data. omega_i are spectral frequencies, v_i their weights, b_i ~ U[0, 2 pi) phases, and the features are
//   phi_i(x) = sqrt(2 s_f^2 v_i/M) cos(omega_i' x + b_i)    so that    E phi(x)' phi(x') = k(x, x')
namespace luthier::search {

// Random frequencies and weights with E v cos(omega' t) = k(t)/s_f^2.
struct SpectralSample {
  Eigen::MatrixXd frequencies;  // M x d.
  Eigen::VectorXd weights;      // M.
};

enum class SpectralSampling {
  // Draws from the kernel's spectrum, with all weights 1. With lengthscales l_j and n_j ~ N(0, 1):
  //   SE         omega_j = n_j/l_j
  //   Matern-nu  omega_j = n_j/l_j sqrt(2 nu/g), with one g ~ chi^2_{2 nu} for all coordinates of a feature
  // A feature of an additive kernel has the coordinates of one group. A feature of a pairwise kernel has those of one
  // or two groups, each with a g of its own.
  kPlain,
  // Draws half of the features of a Matern kernel with frequencies 2, 4, … 64 times as high (g/4^s, s = 1 … 6). Their
  // weights v = p(g)/q(g) <= 2 correct for the mixture's density q. Other and pairwise kernels: as kPlain.
  // Reason: Matern spectra have heavy tails, and near dense data the posterior varies only at frequencies of the tail.
  // Few of 1024 plain features lie there, so most draws vary far too little and some by 10 to 40 posterior deviations.
  // Measured for Matern-5/2 with 150 points on a square: the kurtosis of draws is 1.2 times the normal one instead of
  // 55 times; the error of k is 0.037 s_f^2 instead of 0.027 (root mean square).
  kStratified,
};

// Returns `count` frequencies with weights, the same for the same state of `random`.
SpectralSample SpectralFrequencies(const kernels::StationaryKernel& kernel, int count, SpectralSampling sampling,
                                   base::RandomStream& random);

inline constexpr int kPathwiseFeatures = 1024;
inline constexpr int kFourierFeatures = 100;

// A smooth function drawn from a posterior. It copies what it needs of the regression. Immutable and thread-safe. One
// evaluation costs O(M d + n d).
class FunctionDraw final : public AcquisitionFunction {
 public:
  // Draws by Matheron's rule (Wilson et al. 2020, "Efficiently sampling functions from Gaussian process posteriors"),
  // with stratified frequencies:
  //   f(x) = m + phi(x)' w + k(x, X) C^-1 (y - m - Phi w - e),  w ~ N(0, I), e ~ N(0, s_n^2 I)
  // The rows include slopes; these have the features' derivatives in their directions, no m, and noise of their own.
  // The mean over draws is exactly the posterior's. Their covariance is exact except for the features' error in the
  // prior term. Returns std::nullopt if a number is not finite. Costs O(n (M d + n)). Functions with a `stop` return
  // CANCELLED once it is raised.
  static absl::StatusOr<std::optional<FunctionDraw>> Pathwise(const gp::Regression& regression, int features,
                                                              base::RandomStream random, const base::StopToken& stop);
  // Draws by Bayesian linear regression on the features, with plain frequencies:
  //   f(x) = m + phi(x)' w,  w ~ N(A^-1 Phi' S^-1 (y - m), A^-1),  A = Phi' S^-1 Phi + I,  S the rows' noise
  // The draws vary too little once n approaches the number of features. The noise variance is at least 1e-10 s_f^2.
  // Costs O(M^3 + n M^2).
  static absl::StatusOr<std::optional<FunctionDraw>> FourierFeatures(const gp::Regression& regression, int features,
                                                                     base::RandomStream random,
                                                                     const base::StopToken& stop);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  FunctionDraw(const gp::Regression& regression, int features, SpectralSampling sampling, base::RandomStream& random);
  // Returns the q x M cosines of the features at the rows of u.
  Eigen::MatrixXd Cosines(const Eigen::Ref<const Eigen::MatrixXd>& u) const;
  // Returns the features of the regression's rows (rows x M), without amplitudes.
  absl::StatusOr<Eigen::MatrixXd> RowFeatures(const gp::Regression& regression, const base::StopToken& stop) const;

  kernels::StationaryKernel kernel_;
  double mean_;
  Eigen::MatrixXd frequencies_;  // M x d: omega/(2 pi).
  Eigen::VectorXd phases_;       // M: b/(2 pi).
  Eigen::VectorXd amplitudes_;   // M: sqrt(2 s_f^2 v/M).
  Eigen::VectorXd weights_;      // M: w times the amplitudes.
  Eigen::MatrixXd points_;       // n x d scaled data of Matheron's update; no rows without an update.
  // Set if some rows are slopes; `observed_` then describes the rows at points_.
  std::optional<kernels::DerivativeKernel> derivatives_;
  kernels::ObservedRows observed_;
  Eigen::VectorXd update_;  // C^-1 (y - m - Phi w - e), one entry a row.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_THOMPSON_H_
