#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_SURROGATE_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_SURROGATE_H_

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyper_sampling.h"
#include "lib/gp/regression.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/stationary.h"
#include "lib/search/bo/model/ask_key.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/search/designer_state.h"

// The Gaussian process that explains a study's results. Its kernel, output warp and hyperparameters
// are chosen together, by the posterior density of the hyperparameters. The Jacobians of the warps
// make the densities comparable.
namespace luthier::search {

// One way to explain the data.
struct ModelChoice {
  kernels::KernelShape shape;
  Warp warp = Warp::kNone;
};

struct SurrogateOptions {
  std::vector<ModelChoice> choices;  // At least one; the first is preferred in doubt.
  bool noisy = false;                // True if the same setting may give different values.
  bool logarithm = true;             // False if no choice with Warp::kLog suits.
  gp::PriorKind prior = gp::PriorKind::kDimensionScaled;
  // True to draw hyperparameters from their posterior, one regression a draw, instead of maximising
  // it. Needs the marginal likelihood. Applies from 3 to kMaxSampledRows rows; with more rows,
  // maximising costs less and differs little.
  bool sample = false;
};

// Returns how hyperparameters of a choice are inferred.
gp::InferenceOptions InferenceFor(const ModelChoice& choice, const SurrogateOptions& study);

inline constexpr Eigen::Index kMaxSampledRows = 300;  // Rows of values and slopes.
inline constexpr int kSampledStates = 10;

template <>
inline constexpr auto kStateFields<gp::Hyperparameters> =
    std::tuple(&gp::Hyperparameters::signal_variance, &gp::Hyperparameters::noise_variance, &gp::Hyperparameters::mean,
               &gp::Hyperparameters::shape_parameter, &gp::Hyperparameters::lengthscales,
               &gp::Hyperparameters::slope_noise_variance);

// The designer state of the model. The next searches for hyperparameters start from it.
struct SurrogateState {
  struct Start {
    int choice = 0;
    gp::Hyperparameters theta;
    // Log posterior density minus that of the choice in use, in nats. It is mostly negative.
    double margin = 0.0;
  };
  int64_t observations = 0;   // Number of observations at the last search.
  int searches = 0;           // Number of searches so far. It decides which choices are tried next.
  int choice = 0;             // The choice in use.
  gp::Hyperparameters theta;  // Hyperparameters of the choice in use.
  std::vector<Start> others;  // Results of the last searches of the other choices, to a few digits.
  // The last state of the chain over the hyperparameters of `choice` (gp::ChainDensity). Empty if
  // there is no chain.
  Eigen::VectorXd chain;
};

struct Surrogate {
  OutputTransform transform;
  std::vector<gp::Regression> states;  // At least one. Predictions are averaged over them.
  SurrogateState next;                 // The state for the next ask.
  int likelihoods = 0;                 // Number of likelihoods that the fit computed.
};

// The results that a surrogate explains; n >= 1. References are borrowed.
struct SurrogateData {
  const Eigen::MatrixXd& x;       // n x d points in the unit cube.
  const Eigen::VectorXd& scores;  // n; larger is better.
  const gp::Slopes& slopes;       // Derivatives of the scores at the points, per side of the cube; may be empty.
};

// Fits a Gaussian process to `data`. Deterministic in its arguments. Returns std::nullopt if no covariance could be
// factored, and CANCELLED, here and below, if `stop` was raised.
//
//   search      Hyperparameters are searched for when there are at least 5 % more observations than at
//               the last search. Otherwise those of `carried` are used. A search continues the choice
//               in use from its last hyperparameters. It also tries one or two other choices, in turn,
//               from where their own last searches ended. Another choice replaces the one in use if it
//               explains the data better by two nats. Without `carried` all choices are searched; above
//               256 rows without slopes, shortly and on a random 256 of them.
//   `renew`     If it is false, a growing number of observations does not start a search.
//   sampling    With options.sample the choice is made in the same way. Every call then draws
//               kSampledStates states of its hyperparameters anew, and continues the carried chain.
//   slopes      If there are any, the kernels of all choices must have derivatives. They are converted by
//               d(output) = OutputTransform::Slope d(score), and the Jacobian of a warp has one such
//               factor for each slope. A search sees at most 300 rows: all values, and slopes of the
//               best 20 and of the newest points. Slopes are left out if they exceed 1000 output
//               deviations per side, which no kernel could follow, or where the transform is flat.
absl::StatusOr<std::optional<Surrogate>> FitSurrogate(const SurrogateOptions& options, const SurrogateData& data,
                                                      const std::optional<SurrogateState>& carried, const AskKey& key,
                                                      bool renew, const base::StopToken& stop);

// A choice that explains the data nearly as well as the one in use.
struct Alternative {
  OutputTransform transform;
  gp::Regression regression;
  double weight = 0.0;  // Weight in averages; that of the choice in use is 1.
};

// Returns the models that a prediction should be averaged over, besides the surrogate's own. They
// are the best choices, at most three, that were within 10 nats of the choice in use at their last
// search. Each weight is the square root of the ratio of their densities. (The ratio itself would
// be the posterior weight if modes were all there is and the true model were among the choices. On
// test functions it puts 0.76 of the outcomes within two deviations, its root 0.87.) Each model
// assumes that the trials at `pending` give the mean that it predicts. The result is empty with
// options.sample, whose states are an average already, and above 500 rows of values and slopes.
absl::StatusOr<std::vector<Alternative>> FitAlternatives(const SurrogateOptions& options, const SurrogateData& data,
                                                         const SurrogateState& state, const Eigen::MatrixXd& pending,
                                                         const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_SURROGATE_H_
