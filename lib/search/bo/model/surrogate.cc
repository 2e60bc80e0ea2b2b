#include "lib/search/bo/model/surrogate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Noise variances, in units of the outputs' variance. The floor is the square of the relative accuracy with which the
// model can follow a deterministic objective, and keeps the covariance of near points positive definite.
constexpr double kNoiseFloor = 1e-8;
// Bounds of the thesis' prior, which has one noise floor for all kernels, and of a flat prior, which needs bounds. A
// chain has those of gp::ChainDensity.
constexpr double kThesisFloor = 1e-6;
constexpr double kThesisMinLengthscale = 1e-3, kThesisMaxLengthscale = 10.0;
constexpr double kGain = 2.0;     // Nats by which another choice must explain the data better.
constexpr Index kFewRows = 24;    // Up to this number, searches are thorough, since they cost little.
constexpr Index kSomeRows = 64;   // Up to this number, two other choices are tried beside the one in use, then one.
constexpr Index kManyRows = 128;  // Above it, the other's search may take 8 likelihoods instead of 15,
constexpr Index kVeryManyRows = 1000;  // and above this one 2.
// Above this number of rows the first search is short and sees this many random ones.
constexpr Index kFirstRows = 256;
constexpr int kFirstEvaluations = 20;
constexpr Index kMinSampledRows = 3;
// Sweeps of a new chain that are discarded. With many rows a sweep is expensive, and the chain starts at the mode.
constexpr int kBurnIn = 100, kShortBurnIn = 20;
// Limit of the lengthscales of additive kernels. A sum of functions of one parameter each is learnt from few results
// even if they vary fast; a lengthscale that is too long would leave whole parameters unexplored.
constexpr double kMaxAdditiveLengthscale = 0.3;
constexpr Index kSearchRows = 300;    // Values and slopes that a search for hyperparameters sees.
constexpr double kSteepest = 1000.0;  // Output deviations per side of the cube.
// Limits of the alternatives that predictions are averaged over: nats behind the choice in use, their number, and the
// rows they are fitted to.
constexpr double kComparable = 10.0;
constexpr size_t kMaxAlternatives = 3;
constexpr Index kMaxAlternativeRows = 500;

// The transforms of one set of scores, which is borrowed. Each warp is fitted once, for all kernels.
class Transforms {
 public:
  explicit Transforms(const VectorXd& scores) : scores_(scores) {}
  const std::optional<OutputTransform>& Of(Warp warp) {
    const auto [at, added] = known_.try_emplace(warp);
    if (added) at->second = OutputTransform::Create(warp, scores_);
    return at->second;
  }

 private:
  const VectorXd& scores_;
  std::map<Warp, std::optional<OutputTransform>> known_;
};

// Returns the positions of the slopes that a model of the outputs can use.
std::vector<Index> Usable(const gp::Slopes& slopes, const OutputTransform& transform, const VectorXd& scores) {
  std::vector<Index> usable;
  for (Index i = 0; i < slopes.size(); ++i) {
    const double unit = transform.Slope(scores(slopes.points[static_cast<size_t>(i)]));
    const double deviation = unit * std::sqrt(slopes.extra_variances(i));
    if (unit > 0.0 && std::abs(unit * slopes.values(i)) <= kSteepest && deviation <= kSteepest) usable.push_back(i);
  }
  return usable;
}

// Returns the slopes of the outputs, and sets `log_jacobian` to sum_i ln d(output)/d(score).
gp::Slopes Forward(const gp::Slopes& slopes, const OutputTransform& transform, const VectorXd& scores,
                   double* log_jacobian) {
  gp::Slopes bent = slopes;
  *log_jacobian = 0.0;
  for (Index i = 0; i < slopes.size(); ++i) {
    const double unit = transform.Slope(scores(slopes.points[static_cast<size_t>(i)]));
    bent.values(i) *= unit;
    bent.extra_variances(i) *= unit * unit;
    *log_jacobian += std::log(unit);
  }
  return bent;
}

// Returns regressions of the choice state->choice with hyperparameters drawn from their posterior, and leaves the
// chain's end in `state`. The result is empty if there are too few or too many rows.
absl::StatusOr<std::vector<gp::Regression>> SampleStates(const SurrogateOptions& study, const MatrixXd& x,
                                                         const VectorXd& outputs, const gp::Slopes& slopes,
                                                         uint64_t seed, uint64_t ask_index, SurrogateState* state,
                                                         int* likelihoods, const base::StopToken& stop) {
  std::vector<gp::Regression> states;
  const Index n = outputs.size() + slopes.size();
  if (n < kMinSampledRows || n > kMaxSampledRows) {
    state->chain.resize(0);
    return states;
  }
  const ModelChoice& choice = study.choices[static_cast<size_t>(state->choice)];
  gp::SamplingOptions options;
  options.inference = InferenceFor(choice, study);
  options.states = kSampledStates;
  options.burn_in = n <= kFewRows ? kBurnIn : kShortBurnIn;
  gp::Likelihood likelihood(choice.shape, x, outputs, slopes);
  std::optional<VectorXd> chain;
  if (state->chain.size() > 0) chain = state->chain;
  LUTHIER_ASSIGN_OR_RETURN(
      const gp::SamplingResult result,
      gp::SampleHyperparameters(&likelihood, options, chain, state->theta,
                                base::RandomStream(seed, "bo/mcmc", ask_index, static_cast<uint32_t>(state->choice)),
                                stop));
  *likelihoods += static_cast<int>(result.counts.evaluations);
  state->chain = result.chain;
  for (const gp::Hyperparameters& theta : result.states) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Regression> regression,
                             gp::Regression::Fit(choice.shape, theta, x, outputs, slopes, stop));
    if (regression.has_value()) states.push_back(*std::move(regression));
  }
  return states;
}

}  // namespace

gp::InferenceOptions InferenceFor(const ModelChoice& choice, const SurrogateOptions& study) {
  gp::InferenceOptions options;
  options.prior = study.prior;
  options.criterion = study.criterion;
  options.fit_noise = true;
  options.doubt_noise = !study.noisy;
  options.min_noise = kNoiseFloor;
  if (options.prior == gp::PriorKind::kThesis) {
    options.doubt_noise = false;
    options.min_noise = kThesisFloor;
    options.min_lengthscale = kThesisMinLengthscale;
    options.max_lengthscale = kThesisMaxLengthscale;
  }
  if (choice.shape.structure == kernels::Structure::kAdditive) options.max_lengthscale = kMaxAdditiveLengthscale;
  return options;
}

namespace {

// Returns the choices to search: the one in use and `more` others in turn, or all of `choices` if none is usable.
std::vector<int> ChoicesInTurn(const SurrogateState& state, bool usable, int choices, int more) {
  std::vector<int> turn;
  if (!usable) {
    for (int c = 0; c < choices; ++c) turn.push_back(c);
    return turn;
  }
  turn.push_back(state.choice);
  const int others = std::min(more, choices - 1);
  for (int k = 0; static_cast<int>(turn.size()) <= others; ++k) {
    const int next = (state.searches * others + k) % choices;
    if (std::find(turn.begin(), turn.end(), next) == turn.end()) turn.push_back(next);
  }
  return turn;
}

// Searches the hyperparameters of the choice in use and of one or two others in turn, or of all choices if none is
// usable; `state` becomes that of the best one. Returns false if no choice could be fitted. `most` limits the
// evaluations of one search.
absl::StatusOr<bool> SearchChoices(const SurrogateOptions& options, const MatrixXd& x, const VectorXd& scores,
                                   const gp::Slopes& slopes, bool usable, std::optional<int> most, uint64_t seed,
                                   uint64_t ask_index, Transforms* of_scores, SurrogateState* state, int* likelihoods,
                                   const base::StopToken& stop) {
  const int choices = static_cast<int>(options.choices.size());
  const Index n = scores.size();
  auto start_of = [&](int choice) -> std::optional<gp::Hyperparameters> {
    if (usable && choice == state->choice) return state->theta;
    for (const SurrogateState::Start& other : state->others) {
      if (other.choice == choice) return other.theta;
    }
    return std::nullopt;
  };
  const std::vector<int> turn = ChoicesInTurn(*state, usable, choices, n + slopes.size() <= kSomeRows ? 2 : 1);
  std::vector<std::optional<OutputTransform>> transforms;
  gp::Slopes some = slopes;  // Slopes that all choices can use, so that their densities are of the same data.
  for (int c : turn) {
    transforms.push_back(of_scores->Of(options.choices[static_cast<size_t>(c)].warp));
    if (transforms.back().has_value() && some.size() > 0) some = some.Select(Usable(some, *transforms.back(), scores));
  }
  if (some.size() > 0) some = some.Select(gp::SlopesWithin(some.points, scores, kSearchRows));
  const Index rows = n + some.size();
  double best = 0.0;
  int chosen = -1;
  gp::Hyperparameters theta;
  std::optional<double> first;  // Density of the choice that margins are counted from: the one in use until now.
  for (size_t k = 0; k < turn.size(); ++k) {
    const int c = turn[k];
    const ModelChoice& choice = options.choices[static_cast<size_t>(c)];
    const std::optional<OutputTransform>& transform = transforms[k];
    if (!transform.has_value()) continue;
    gp::InferenceOptions inference = InferenceFor(choice, options);
    const std::optional<gp::Hyperparameters> start = start_of(c);
    if (start.has_value() && rows > kFewRows) {
      inference.max_searches = 1;
      inference.random_starts = 1;
      if (c != turn[0]) inference.max_evaluations = rows <= kManyRows ? 15 : rows <= kVeryManyRows ? 8 : 2;
    }
    if (most.has_value()) {
      inference.max_searches = 1;
      inference.max_evaluations = *most;
    }
    double slopes_jacobian = 0.0;
    gp::Likelihood likelihood(choice.shape, x, transform->Forward(scores),
                              Forward(some, *transform, scores, &slopes_jacobian));
    LUTHIER_ASSIGN_OR_RETURN(
        const gp::InferenceResult result,
        gp::MaximizePosterior(&likelihood, inference, start,
                              base::RandomStream(seed, "bo/map", ask_index, static_cast<uint32_t>(c)), stop));
    *likelihoods += result.evaluations;
    const double explained = result.log_posterior + transform->LogJacobian() + slopes_jacobian;
    if (chosen < 0 || explained > best + kGain) {
      best = explained;
      chosen = c;
    }
    if (chosen == c) theta = result.theta;
    if (!first.has_value()) first = explained;
    const double margin = std::isfinite(explained - *first) ? explained - *first : -kComparable;
    const auto same = std::find_if(state->others.begin(), state->others.end(),
                                   [c](const SurrogateState::Start& s) { return s.choice == c; });
    if (same != state->others.end()) {
      *same = {c, result.theta, margin};
    } else {
      state->others.push_back({c, result.theta, margin});
    }
  }
  if (chosen < 0) return false;
  double lead = 0.0;  // Margins are counted from the choice in use from now on.
  for (const SurrogateState::Start& other : state->others) {
    if (other.choice == chosen) lead = other.margin;
  }
  for (SurrogateState::Start& other : state->others) other.margin -= lead;
  std::erase_if(state->others, [chosen](const SurrogateState::Start& s) { return s.choice == chosen; });
  if (chosen != state->choice) state->chain.resize(0);
  state->choice = chosen;
  state->theta = theta;
  state->observations = n;
  ++state->searches;
  return true;
}

// Searches all choices on some of the rows, which takes less than a second where a search on all of them takes several.
// Returns false if no choice was found whose warp suits all scores.
absl::StatusOr<bool> SearchSomeRows(const SurrogateOptions& options, const MatrixXd& x, const VectorXd& scores,
                                    uint64_t seed, uint64_t ask_index, Transforms* of_scores, SurrogateState* state,
                                    int* likelihoods, const base::StopToken& stop) {
  std::vector<Index> rows(static_cast<size_t>(scores.size()));
  std::iota(rows.begin(), rows.end(), Index{0});
  base::RandomStream random(seed, "bo/first_rows", ask_index);
  random.Shuffle(rows);
  rows.resize(static_cast<size_t>(kFirstRows));
  std::sort(rows.begin(), rows.end());
  const VectorXd some = scores(rows);
  Transforms of_some(some);
  SurrogateState found;
  LUTHIER_ASSIGN_OR_RETURN(
      const bool any, SearchChoices(options, x(rows, Eigen::all), some, {}, /*usable=*/false, kFirstEvaluations, seed,
                                    ask_index, &of_some, &found, likelihoods, stop));
  if (!any || !of_scores->Of(options.choices[static_cast<size_t>(found.choice)].warp).has_value()) return false;
  *state = std::move(found);
  state->observations = scores.size();
  return true;
}

}  // namespace

absl::StatusOr<std::optional<Surrogate>> FitSurrogate(const SurrogateOptions& options, const MatrixXd& x,
                                                      const VectorXd& scores,
                                                      const std::optional<SurrogateState>& carried, uint64_t seed,
                                                      uint64_t ask_index, const gp::Slopes& slopes, bool renew,
                                                      const base::StopToken& stop) {
  LUTHIER_CHECK(!options.choices.empty() && x.rows() == scores.size() && scores.size() >= 1);
  const Index n = scores.size();
  SurrogateState state;
  if (carried.has_value()) state = *carried;
  int likelihoods = 0;
  Transforms of_scores(scores);
  // A choice whose warp does not suit the scores any more cannot be kept.
  const bool usable =
      carried.has_value() && of_scores.Of(options.choices[static_cast<size_t>(state.choice)].warp).has_value();
  const bool search =
      !usable || n < state.observations ||
      (renew && n >= state.observations + std::max<Index>(1, static_cast<Index>(state.observations) / 20)) ||
      // There are slopes, and the last fit had none.
      (slopes.size() > 0 && !(state.theta.slope_noise_variance > 0.0));
  bool of_all = false;  // The hyperparameters were searched with all rows.
  bool of_some = false;
  if (search && !usable && n > kFirstRows && slopes.size() == 0) {
    LUTHIER_ASSIGN_OR_RETURN(
        of_some, SearchSomeRows(options, x, scores, seed, ask_index, &of_scores, &state, &likelihoods, stop));
  }
  if (search && !of_some) {
    LUTHIER_ASSIGN_OR_RETURN(of_all, SearchChoices(options, x, scores, slopes, usable, std::nullopt, seed, ask_index,
                                                   &of_scores, &state, &likelihoods, stop));
    if (!of_all) return std::nullopt;
  }
  const ModelChoice& choice = options.choices[static_cast<size_t>(state.choice)];
  std::optional<OutputTransform> transform = of_scores.Of(choice.warp);
  if (!transform.has_value()) return std::nullopt;
  const VectorXd outputs = transform->Forward(scores);
  double ignored = 0.0;
  const gp::Slopes bent = Forward(slopes.size() > 0 ? slopes.Select(Usable(slopes, *transform, scores)) : slopes,
                                  *transform, scores, &ignored);
  std::vector<gp::Regression> states;
  if (options.sample) {
    LUTHIER_ASSIGN_OR_RETURN(states,
                             SampleStates(options, x, outputs, bent, seed, ask_index, &state, &likelihoods, stop));
  }
  if (states.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Regression> regression,
                             gp::Regression::Fit(choice.shape, state.theta, x, outputs, bent, stop));
    if (!regression.has_value()) return std::nullopt;
    if (!of_all) regression->FitMean();
    states.push_back(*std::move(regression));
  }
  return std::optional<Surrogate>(Surrogate{*std::move(transform), std::move(states), std::move(state), likelihoods});
}

absl::StatusOr<std::vector<Alternative>> FitAlternatives(const SurrogateOptions& options, const MatrixXd& x,
                                                         const VectorXd& scores, const SurrogateState& state,
                                                         const gp::Slopes& slopes, const MatrixXd& pending,
                                                         const base::StopToken& stop) {
  std::vector<Alternative> alternatives;
  if (options.sample || x.rows() + slopes.size() > kMaxAlternativeRows) return alternatives;
  std::vector<const SurrogateState::Start*> near;
  for (const SurrogateState::Start& other : state.others) {
    if (other.margin > -kComparable) near.push_back(&other);
  }
  std::sort(near.begin(), near.end(), [](const auto* a, const auto* b) {
    return a->margin != b->margin ? a->margin > b->margin : a->choice < b->choice;
  });
  if (near.size() > kMaxAlternatives) near.resize(kMaxAlternatives);
  Transforms of_scores(scores);
  for (const SurrogateState::Start* other : near) {
    const ModelChoice& choice = options.choices[static_cast<size_t>(other->choice)];
    std::optional<OutputTransform> transform = of_scores.Of(choice.warp);
    if (!transform.has_value()) continue;
    double ignored = 0.0;
    const gp::Slopes bent = Forward(slopes.size() > 0 ? slopes.Select(Usable(slopes, *transform, scores)) : slopes,
                                    *transform, scores, &ignored);
    LUTHIER_ASSIGN_OR_RETURN(
        std::optional<gp::Regression> regression,
        gp::Regression::Fit(choice.shape, other->theta, x, transform->Forward(scores), bent, stop));
    if (!regression.has_value()) continue;
    regression->FitMean();
    for (Index i = 0; i < pending.rows(); ++i) {
      const double believed = regression->PredictMean(pending.row(i))(0);
      LUTHIER_RETURN_IF_ERROR(regression->Append(pending.row(i).transpose(), believed, stop).status());
    }
    const double weight = std::exp(0.5 * std::min(other->margin, 2.0 * kGain));
    alternatives.push_back({*std::move(transform), *std::move(regression), weight});
  }
  return alternatives;
}

}  // namespace luthier::search
