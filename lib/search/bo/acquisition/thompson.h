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

// Thompson sampling: functions drawn from a regression's posterior, whose maximiser is the next proposal. Under several
// posteriors a draw uses one of them, picked by the caller with equal chances.
//
// Notation: s_f^2 signal variance, M features, omega_i spectral frequencies, v_i their weights, b_i ~ U[0, 2 pi)
// phases,
//   phi_i(x) = sqrt(2 s_f^2 v_i/M) cos(omega_i' x + b_i)    so that    E phi(x)' phi(x') = k(x, x')
namespace luthier::search {

// Frequencies and weights with E v cos(omega' t) = k(t)/s_f^2.
struct SpectralSample {
  Eigen::MatrixXd frequencies;  // M x d.
  Eigen::VectorXd weights;      // M.
};

enum class SpectralSampling {
  // From the kernel's spectrum, all weights 1:
  //   SE:        omega_j = n_j/l_j, n ~ N(0, I)
  //   Matern-nu: omega_j = n_j/l_j sqrt(2 nu/g), g ~ chi^2_{2 nu}, one g for all coordinates of a feature
  //   RQ:        omega_j = n_j/l_j sqrt(g/alpha), g ~ Gamma(alpha)
  //   additive, pairwise: one group's, or two groups' coordinates only, with a g each
  kPlain,
  // Matern spectra have heavy tails, and near dense data only the tail is left of the posterior: of 1024 plain features
  // few or none lie there, so most draws vary far too little and a few have waves of 10 to 40 posterior deviations.
  // Here
  // half of the features are drawn as above and half with frequencies 2, 4, … 64 times as high (g/4^s, s = 1 … 6), with
  // weights v = p(g)/q(g) <= 2 under the mixture's density q. Measured for Matern-5/2, 150 points on a square: kurtosis
  // of draws 1.2 times the normal one against 55 times, for an error of k of 0.037 s_f^2 instead of 0.027 (rms).
  kStratified,
};

SpectralSample SpectralFrequencies(const kernels::StationaryKernel& kernel, int count, SpectralSampling sampling,
                                   base::RandomStream& random);

enum class FunctionSampler {
  kPathwise,         // FunctionDraw::Pathwise, 1024 features.
  kFourierFeatures,  // FunctionDraw::FourierFeatures, 100 features, as older tools have it.
  kFinite,           // DrawAtPoints.
};

inline constexpr int kPathwiseFeatures = 1024;
inline constexpr int kFourierFeatures = 100;

// One function drawn from a posterior: smooth, the same at every call. Owns all it needs. Immutable; any thread.
// O(M d + n d) an evaluation.
class FunctionDraw final : public AcquisitionFunction {
 public:
  // Matheron's rule (Wilson et al. 2020, "Efficiently sampling functions from Gaussian process posteriors"):
  //   f(x) = m + phi(x)' w + k(x, X) C^-1 (y - m - Phi w - e),  w ~ N(0, I), e ~ N(0, s_n^2 I)
  // over all rows: those of slopes have the features' derivatives along their directions, no m, and their own noise.
  // Stratified frequencies. Mean exactly the posterior's, covariance up to the features' error in the prior term alone.
  // Returns std::nullopt if the numbers do not stay finite. O(n (M d + n)). CANCELLED, here and below: `stop` was
  // raised.
  static absl::StatusOr<std::optional<FunctionDraw>> Pathwise(const gp::Regression& regression, int features,
                                                              base::RandomStream random, const base::StopToken& stop);
  // Bayesian linear regression on the features:
  //   f(x) = m + phi(x)' w,  w ~ N(A^-1 Phi' S^-1 (y - m), A^-1),  A = Phi' S^-1 Phi + I,  S the rows' noise
  // Plain frequencies. It starves of variance once n nears the number of features. The noise is taken as at least 1e-10
  // s_f^2. O(M^3 + n M^2).
  static absl::StatusOr<std::optional<FunctionDraw>> FourierFeatures(const gp::Regression& regression, int features,
                                                                     base::RandomStream random,
                                                                     const base::StopToken& stop);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  FunctionDraw(const gp::Regression& regression, int features, SpectralSampling sampling, base::RandomStream& random);
  // q x M cosines at the rows of u.
  Eigen::MatrixXd Cosines(const Eigen::Ref<const Eigen::MatrixXd>& u) const;
  // The features of the regression's rows without amplitudes: N x M.
  absl::StatusOr<Eigen::MatrixXd> RowFeatures(const gp::Regression& regression, const base::StopToken& stop) const;

  kernels::StationaryKernel kernel_;
  double mean_;
  Eigen::MatrixXd frequencies_;  // M x d, in turns: omega/(2 pi).
  Eigen::VectorXd phases_;       // M, in turns.
  Eigen::VectorXd amplitudes_;   // M: sqrt(2 s_f^2 v/M).
  Eigen::VectorXd weights_;      // M: w times the amplitudes.
  Eigen::MatrixXd points_;       // n x d scaled data of the update, or none.
  // With slopes: the rows, whose points are points_.
  std::optional<kernels::DerivativeKernel> derivatives_;
  kernels::ObservedRows observed_;
  Eigen::VectorXd update_;  // One a row: C^-1 (...).
};

// A joint draw of f at the rows of u (q x d): mean + L n, L L' = posterior covariance + 1e-8 s_f^2 I. Exact, but only
// there. Returns std::nullopt if the covariance cannot be factored. O(q^3/3 + q^2 n).
absl::StatusOr<std::optional<Eigen::VectorXd>> DrawAtPoints(const gp::Regression& regression,
                                                            const Eigen::Ref<const Eigen::MatrixXd>& u,
                                                            base::RandomStream random, const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_THOMPSON_H_
