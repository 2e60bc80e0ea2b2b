#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_SURROGATE_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_SURROGATE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyper_sampling.h"
#include "lib/gp/regression.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/stationary.h"
#include "lib/search/bo/model/output_transform.h"

// The Gaussian process that explains a study's results: kernel, output warp and hyperparameters, chosen together by the
// posterior density of the hyperparameters, warps made comparable by their Jacobians.
namespace luthier::search {

// One way to explain the data.
struct ModelChoice {
  kernels::KernelShape shape;
  Warp warp = Warp::kNone;
};

struct SurrogateOptions {
  std::vector<ModelChoice> choices;  // At least one; the first is preferred in doubt.
  bool noisy = false;                // True if the same setting may give different values.
  gp::PriorKind prior = gp::PriorKind::kDimensionScaled;
  gp::Criterion criterion = gp::Criterion::kMarginalLikelihood;
  // Several regressions, their hyperparameters drawn from the posterior instead of maximising it; marginal likelihood
  // only. From 3 observations to kMaxSampledRows rows; with more, maximising costs less and differs little.
  bool sample = false;
};

// Returns how hyperparameters of a choice are inferred.
gp::InferenceOptions InferenceFor(const ModelChoice& choice, const SurrogateOptions& study);

inline constexpr Eigen::Index kMaxSampledRows = 300;  // Rows of values and slopes.
inline constexpr int kSampledStates = 10;

// The designer state of the model: where the searches for hyperparameters start.
struct SurrogateState {
  struct Start {
    int choice = 0;
    gp::Hyperparameters theta;
    double margin = 0.0;  // Nats by which it explained the data better, mostly below 0, than the choice in use.
  };
  int64_t observations = 0;   // At the last search.
  int searches = 0;           // So far: the turn of the other choices.
  int choice = 0;             // In use.
  gp::Hyperparameters theta;  // Its hyperparameters.
  std::vector<Start> others;  // Ends of the last searches of the other choices; all to a few digits.
  // The last state of the chain over the hyperparameters of `choice` (gp::ChainDensity); empty: none.
  Eigen::VectorXd chain;
};

struct Surrogate {
  OutputTransform transform;
  std::vector<gp::Regression> states;  // At least one. To be averaged over.
  SurrogateState next;                 // For the next ask.
  int likelihoods = 0;                 // Computed for it.
};

// Fits to n points x (n x d, unit cube) with scores (n, larger is better); n >= 1. Hyperparameters are searched for
// when there are at least 5 % more observations than at the last search, else taken over. A search improves the choice
// in use from where it was, and tries one or two others in turn from where those ended; another takes over when it
// explains the data better by two nats. Without a carried state all choices are searched. With options.sample the
// choice is made in the same way, and kSampledStates states of its hyperparameters are then drawn anew at every call,
// by a chain that goes on where the carried one was. Deterministic in its arguments. Returns std::nullopt if no
// covariance could be factored.
//
// slopes: derivatives of the scores at the points, per side of the cube, if any; the choices' kernels must have
// derivatives then. They are bent with the scores, d(output) = OutputTransform::Slope d(score), which the Jacobian of a
// warp counts for each of them. Searches see at most 300 rows: all values, slopes of the best 20 and the newest points.
// Slopes that no kernel could follow are left out, those above 1000 output deviations per side; as are those where the
// transform is flat.
//
// renew: false for a carried state that will do for now, however many observations there are. CANCELLED, here and
// below: `stop` was raised.
absl::StatusOr<std::optional<Surrogate>> FitSurrogate(const SurrogateOptions& options, const Eigen::MatrixXd& x,
                                                      const Eigen::VectorXd& scores,
                                                      const std::optional<SurrogateState>& carried, uint64_t seed,
                                                      uint64_t ask_index, const gp::Slopes& slopes, bool renew,
                                                      const base::StopToken& stop);

// Another choice that explains the data nearly as well as the one in use.
struct Alternative {
  OutputTransform transform;
  gp::Regression regression;
  double weight = 0.0;  // Relative to that of the choice in use, which is 1.
};

// Returns the models that a prediction should be averaged over, besides the surrogate's own: the choices that were
// within 10 nats of the one in use when they were last searched for, the best three at most, with the square root of
// the ratio of their densities as weights. (The ratio itself would be the posterior's if modes were all there is and
// the true model were among the choices: on test functions 0.76 of the outcomes are then within two deviations, with
// the root 0.87.) pending: points of pending trials, believed to give what each predicts. None with options.sample,
// whose states are an average already, and above 500 rows.
absl::StatusOr<std::vector<Alternative>> FitAlternatives(const SurrogateOptions& options, const Eigen::MatrixXd& x,
                                                         const Eigen::VectorXd& scores, const SurrogateState& state,
                                                         const gp::Slopes& slopes, const Eigen::MatrixXd& pending,
                                                         const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_SURROGATE_H_
