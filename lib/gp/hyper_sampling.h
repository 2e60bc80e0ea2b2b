#ifndef LUTHIER_LIB_GP_HYPER_SAMPLING_H_
#define LUTHIER_LIB_GP_HYPER_SAMPLING_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/likelihood.h"
#include "lib/math/slice_sampler.h"

// Hyperparameters drawn from their posterior by slice sampling, to average over instead of trusting the best ones.
namespace luthier::gp {

struct SamplingOptions {
  // The prior and, but for PriorKind::kThesis, the bounds.
  InferenceOptions inference;
  int burn_in = 100;  // Sweeps of a chain that starts anew, >= 0.
  int states = 10;    // Sweeps after that; the state after each is kept. >= 1.
};

// ln density of a chain's state x over the free hyperparameters, up to a constant. x holds, in this order,
//   l_1 … l_g [, s_f^2] [, shape] [, sigma_n^2] [, sigma_g^2/V with slopes, HyperPosterior's], m
// all but m in logarithms, inside InferenceOptions' bounds (-inf outside). The logarithms have the densities that
// follow from the priors; those whose prior HyperPosterior has for ln sigma_n^2 keep it: a doubted noise's has the
// density 1/sigma_n^2, so that it stays a doubt.
//
// PriorKind::kThesis gives the chain of Snoek, Larochelle & Adams (2012): natural parameters, no logarithms,
//   l_j ~ U(1e-11, 10), ln s_f^2 ~ N(0, 1), p(sigma_n^2) ~ ln(1 + 3 (0.1/sigma_n^2)^2) on [1e-10, 10] (the density is
//   infinite at 0), m ~ N(0, 1), and 1e-6 on the diagonal besides, which is part of the noise of Unpack.
// max_lengthscale below 10 bounds l_j there too. Borrows `likelihood`.
class ChainDensity {
 public:
  ChainDensity(Likelihood* likelihood, const InferenceOptions& options);

  Eigen::Index dimension() const { return posterior_.dimension() + 1; }
  // Returns -inf outside the bounds and where the covariance cannot be factored; never NaN. Returns CANCELLED if `stop`
  // was raised.
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, const base::StopToken& stop) const;
  // Returns the prior's mode, with the thesis' prior its usual start (l = 1, s_f^2 = 1/e, sigma_n^2 = 1e-3); m = 0.
  Eigen::VectorXd Mode() const;
  // Returns the state of `theta`, projected on the bounds.
  Eigen::VectorXd Pack(const Hyperparameters& theta) const;
  Hyperparameters Unpack(const Eigen::VectorXd& x) const;
  // Coordinates moved together, along a random direction: s_f^2, the noises and m.
  const std::vector<int>& joint() const { return joint_; }
  // Coordinates moved one by one: lengthscales and the kernel's shape parameter.
  const std::vector<int>& single() const { return single_; }

 private:
  // The state with logarithms phi.
  Eigen::VectorXd At(const Eigen::VectorXd& phi, double mean) const;

  Likelihood* likelihood_;
  bool natural_;
  HyperPosterior posterior_;
  std::vector<int> joint_, single_;
  Eigen::Index log_noise_ = -1;  // In x, -1: none.
};

struct SamplingResult {
  std::vector<Hyperparameters> states;  // Empty when not even the prior's mode can be evaluated.
  Eigen::VectorXd chain;                // The last state, to carry to the next call.
  bool burned = false;                  // True if the chain started anew.
  math::SliceCounts counts;             // counts.evaluations likelihoods, and steps that kept the old state.
};

// Runs one chain. It goes on from `carried` if the density there is finite under the present data. Otherwise it starts
// at `start`, or at the prior's mode if `start` has no finite density either, and burns in. A sweep is one joint move
// (doubling with the thesis' prior, linear expansion else), then each other coordinate in random order. Deterministic
// in its arguments; carrying result.chain on continues the chain exactly. Takes about 6 likelihoods, n^3/3 each, a
// coordinate and sweep. Returns CANCELLED if `stop` was raised.
absl::StatusOr<SamplingResult> SampleHyperparameters(Likelihood* likelihood, const SamplingOptions& options,
                                                     const std::optional<Eigen::VectorXd>& carried,
                                                     const std::optional<Hyperparameters>& start,
                                                     base::RandomStream random, const base::StopToken& stop);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_HYPER_SAMPLING_H_
