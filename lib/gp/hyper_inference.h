#ifndef LUTHIER_LIB_GP_HYPER_INFERENCE_H_
#define LUTHIER_LIB_GP_HYPER_INFERENCE_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/likelihood.h"

// Choosing hyperparameters: the prior, the log posterior over log parameters, and its maximiser. A sampler needs only
// HyperPosterior and fits beside MaximizePosterior.
namespace luthier::gp {

enum class PriorKind {
  // Dimension-scaled (Hvarfner et al. 2024, "Vanilla Bayesian optimization performs great in high dimensions"):
  // l ~ LogNormal(sqrt2 + ln(d)/2, sqrt3), s_f^2 ~ LogNormal(0, 1), sigma_n^2 ~ LogNormal(-4, 3).
  kDimensionScaled,
  // Snoek, Larochelle & Adams 2012, "Practical Bayesian optimization of machine learning algorithms", and their
  // Spearmint: l ~ U(0, max), s_f^2 ~ LogNormal(0, 1), p(sigma_n^2) ~ ln(1 + 3 (0.1/sigma_n^2)^2) (horseshoe).
  kThesis,
};

struct InferenceOptions {
  PriorKind prior = PriorKind::kDimensionScaled;
  bool fit_signal = true;     // Otherwise s_f^2 = 1.
  bool fit_noise = false;     // Otherwise sigma_n^2 = fixed_noise.
  double fixed_noise = 1e-6;  // >= 0, for deterministic objectives.
  // Lower bound of a fitted noise; without one, repeated y make the likelihood unbounded.
  double min_noise = 1e-4;
  // A fitted noise has the prior 1/sigma_n^2 above its bound, instead of PriorKind's, which expects some: for
  // objectives that are thought deterministic. The noise then leaves the bound only when the data insist.
  bool doubt_noise = false;
  // With observed slopes: sigma_g^2 as a multiple of the slopes' mean prior variance, which is ~ LogNormal(ln 1e-4, 2)
  // when fitted.
  bool fit_slope_noise = true;      // Otherwise sigma_g^2 = fixed_slope_noise times V.
  double fixed_slope_noise = 1e-6;  // >= 0.
  double min_lengthscale = 0.025;   // Unit-cube units.
  double max_lengthscale = 100.0;
  int random_starts = 3;     // Draws from the prior beside the carried state and the prior's mode.
  int max_searches = 2;      // Starts (best first) that are improved; the others are only evaluated.
  int max_evaluations = 60;  // Per search.
  // Bounds a search's evaluations besides, at rows^3 each, but allows at least three: it bounds the time of one
  // inference on many rows. If it leaves fewer than max_evaluations, the search starts from a carried state alone.
  // Without a carried state it then sees a random 256 of the values and no slopes, and the density of its end is that
  // of all data.
  double max_work = 5e9;
  double value_tolerance = 1e-6;  // Relative; see math::LbfgsOptions.
};

// ln posterior density over the free parameters in log form, in the order
//   ln l_1 … ln l_g [, ln s_f^2] [, ln shape] [, ln sigma_n^2] [, ln(sigma_g^2/V)]
// up to a constant; prior densities are those of the parameters themselves, not of their logarithms, but for
// sigma_n^2 under kDimensionScaled: the mode of so wide a log-normal density is e^-9 times its median. The
// mean is maximised over in closed form (Likelihood::MarginalOverMean). sigma_g^2, present when slopes
// are observed, is a multiple of V, the mean over coordinates of the prior variance of df/dx_j: its prior and its
// bounds are those of the multiple. Borrows `likelihood`.
class HyperPosterior {
 public:
  HyperPosterior(Likelihood* likelihood, const InferenceOptions& options);

  Eigen::Index dimension() const { return lower_.size(); }
  const Eigen::VectorXd& lower() const { return lower_; }
  const Eigen::VectorXd& upper() const { return upper_; }
  // The prior's mode (kThesis, which has none: l = 1, s_f^2 = 1/e, sigma_n^2 = 1e-3), projected on the bounds.
  Eigen::VectorXd Mode() const;
  // A draw from the prior, projected on the bounds.
  Eigen::VectorXd Draw(base::RandomStream& random) const;
  Eigen::VectorXd Pack(const Hyperparameters& theta) const;
  // The mean is 0; Value finds it.
  Hyperparameters Unpack(const Eigen::VectorXd& phi) const;
  // Returns -inf if the covariance is not positive definite. `theta`, unless null, is set to the parameters with the
  // mean in place. Returns CANCELLED if `stop` was raised.
  absl::StatusOr<double> Value(const Eigen::VectorXd& phi, Eigen::VectorXd* gradient, Hyperparameters* theta,
                               const base::StopToken& stop) const;
  // Returns the prior's part of Value alone.
  double LogPrior(const Eigen::VectorXd& phi, Eigen::VectorXd* gradient) const;

 private:
  Likelihood* likelihood_;
  InferenceOptions options_;
  Eigen::Index groups_;
  Eigen::Index signal_ = -1, shape_ = -1, noise_ = -1, slope_noise_ = -1;  // In phi, -1: fixed.
  Eigen::VectorXd lower_, upper_;
};

struct InferenceResult {
  Hyperparameters theta;
  double log_posterior = 0.0;  // -inf when no start was usable; theta is then the prior's mode.
  int evaluations = 0;         // Likelihoods computed.
};

// Maximises the posterior. Starts: `carried` (if given), the prior's mode, and draws from the prior. All are evaluated;
// the best max_searches are improved by bounded L-BFGS, the carried one among them if there is more than one; the best
// end wins, ties to the earlier. Deterministic in its arguments. With fewer than 3 observations the result is the
// prior's mode, without a search. Many rows: see InferenceOptions::max_work. Returns CANCELLED if `stop` was raised.
absl::StatusOr<InferenceResult> MaximizePosterior(Likelihood* likelihood, const InferenceOptions& options,
                                                  const std::optional<Hyperparameters>& carried,
                                                  base::RandomStream random, const base::StopToken& stop);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_HYPER_INFERENCE_H_
