#include "lib/search/bo/model/surrogate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

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
  Transforms(const VectorXd& scores, bool logarithm) : scores_(scores) {
    if (!logarithm) known_[Warp::kLog] = std::nullopt;
  }
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

}  // namespace

gp::InferenceOptions InferenceFor(const ModelChoice& choice, const SurrogateOptions& study) {
  gp::InferenceOptions options;
  options.prior = study.prior;
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

// One fit: its data, and the state and the cost that searches change. It borrows what it is made of.
class SurrogateFit {
 public:
  SurrogateFit(const SurrogateOptions& options, const SurrogateData& data, const AskKey& key,
               const base::StopToken& stop)
      : options_(options), data_(data), key_(key), stop_(stop), transforms_(data.scores, options.logarithm) {}

  SurrogateState& state() { return state_; }
  int likelihoods() const { return likelihoods_; }
  const ModelChoice& choice() const { return ChoiceOf(state_.choice); }
  // Returns the transform of a choice; std::nullopt if its warp does not suit the scores.
  const std::optional<OutputTransform>& TransformOf(int choice) { return transforms_.Of(ChoiceOf(choice).warp); }
  // Returns the slopes of the outputs that a model can use.
  gp::Slopes SlopesOf(const OutputTransform& transform) const;

  // Searches the hyperparameters of the choice in use and of one or two others in turn, or of all choices if none is
  // usable; the state becomes that of the best one. Returns false if no choice could be fitted. `most` limits the
  // evaluations of one search.
  absl::StatusOr<bool> SearchChoices(bool usable, std::optional<int> most);
  // Searches all choices on some of the rows, which takes less than a second where a search on all of them takes
  // several. Returns false if no choice was found whose warp suits all scores.
  absl::StatusOr<bool> SearchSomeRows();
  // Returns regressions of the choice in use with hyperparameters drawn from their posterior, and leaves the chain's
  // end in the state. The result is empty if there are too few or too many rows.
  absl::StatusOr<std::vector<gp::Regression>> SampleStates(const VectorXd& outputs, const gp::Slopes& slopes);

 private:
  // The end of one search.
  struct Found {
    gp::Hyperparameters theta;
    double explained = 0.0;  // Log posterior density, comparable among choices.
  };

  const ModelChoice& ChoiceOf(int choice) const { return options_.choices[static_cast<size_t>(choice)]; }
  // Returns the slopes that all choices of `turn` can use, so that their densities are of the same data.
  gp::Slopes CommonSlopes(const std::vector<int>& turn);
  // Returns the hyperparameters from which a search of the choice starts.
  std::optional<gp::Hyperparameters> StartOf(int choice, bool usable) const;
  // Searches one choice, whose warp suits the scores. `first`: it is the first of its turn.
  absl::StatusOr<Found> Search(int choice, bool first, const std::optional<gp::Hyperparameters>& start,
                               const gp::Slopes& slopes, std::optional<int> most);
  // Notes the hyperparameters that a search of `choice` ended at.
  void Note(int choice, const gp::Hyperparameters& theta, double margin);
  // Makes `choice` the one in use.
  void Use(int choice, const gp::Hyperparameters& theta);

  const SurrogateOptions& options_;
  const SurrogateData& data_;
  const AskKey& key_;
  const base::StopToken& stop_;
  Transforms transforms_;
  SurrogateState state_;
  int likelihoods_ = 0;
};

gp::Slopes SurrogateFit::SlopesOf(const OutputTransform& transform) const {
  double ignored = 0.0;
  const gp::Slopes& slopes = data_.slopes;
  return Forward(slopes.size() > 0 ? slopes.Select(Usable(slopes, transform, data_.scores)) : slopes, transform,
                 data_.scores, &ignored);
}

gp::Slopes SurrogateFit::CommonSlopes(const std::vector<int>& turn) {
  gp::Slopes some = data_.slopes;
  for (const int choice : turn) {
    const std::optional<OutputTransform>& transform = TransformOf(choice);
    if (transform.has_value() && some.size() > 0) some = some.Select(Usable(some, *transform, data_.scores));
  }
  if (some.size() > 0) some = some.Select(gp::SlopesWithin(some.points, data_.scores, kSearchRows));
  return some;
}

std::optional<gp::Hyperparameters> SurrogateFit::StartOf(int choice, bool usable) const {
  if (usable && choice == state_.choice) return state_.theta;
  for (const SurrogateState::Start& other : state_.others) {
    if (other.choice == choice) return other.theta;
  }
  return std::nullopt;
}

absl::StatusOr<SurrogateFit::Found> SurrogateFit::Search(int choice, bool first,
                                                         const std::optional<gp::Hyperparameters>& start,
                                                         const gp::Slopes& slopes, std::optional<int> most) {
  const Index rows = data_.scores.size() + slopes.size();
  gp::InferenceOptions inference = InferenceFor(ChoiceOf(choice), options_);
  if (start.has_value() && rows > kFewRows) {
    inference.max_searches = 1;
    inference.random_starts = 1;
    if (!first) inference.max_evaluations = rows <= kManyRows ? 15 : rows <= kVeryManyRows ? 8 : 2;
  }
  if (most.has_value()) {
    inference.max_searches = 1;
    inference.max_evaluations = *most;
  }
  const OutputTransform& transform = *TransformOf(choice);
  double slopes_jacobian = 0.0;
  gp::Likelihood likelihood(ChoiceOf(choice).shape, data_.x, transform.Forward(data_.scores),
                            Forward(slopes, transform, data_.scores, &slopes_jacobian));
  LUTHIER_ASSIGN_OR_RETURN(const gp::InferenceResult result,
                           gp::MaximizePosterior(&likelihood, inference, start,
                                                 key_.Stream("bo/map", static_cast<uint32_t>(choice)), stop_));
  likelihoods_ += result.evaluations;
  return Found{result.theta, result.log_posterior + transform.LogJacobian() + slopes_jacobian};
}

void SurrogateFit::Note(int choice, const gp::Hyperparameters& theta, double margin) {
  const auto same = std::find_if(state_.others.begin(), state_.others.end(),
                                 [choice](const SurrogateState::Start& s) { return s.choice == choice; });
  if (same != state_.others.end()) {
    *same = {choice, theta, margin};
  } else {
    state_.others.push_back({choice, theta, margin});
  }
}

void SurrogateFit::Use(int choice, const gp::Hyperparameters& theta) {
  double lead = 0.0;  // Margins are counted from the choice in use from now on.
  for (const SurrogateState::Start& other : state_.others) {
    if (other.choice == choice) lead = other.margin;
  }
  for (SurrogateState::Start& other : state_.others) other.margin -= lead;
  std::erase_if(state_.others, [choice](const SurrogateState::Start& s) { return s.choice == choice; });
  if (choice != state_.choice) state_.chain.resize(0);
  state_.choice = choice;
  state_.theta = theta;
  state_.observations = data_.scores.size();
  ++state_.searches;
}

absl::StatusOr<bool> SurrogateFit::SearchChoices(bool usable, std::optional<int> most) {
  const int more = data_.scores.size() + data_.slopes.size() <= kSomeRows ? 2 : 1;
  const std::vector<int> turn = ChoicesInTurn(state_, usable, static_cast<int>(options_.choices.size()), more);
  const gp::Slopes slopes = CommonSlopes(turn);
  int chosen = -1;
  Found best;
  std::optional<double> first;  // Density of the choice that margins are counted from: the one in use until now.
  for (const int choice : turn) {
    if (!TransformOf(choice).has_value()) continue;
    LUTHIER_ASSIGN_OR_RETURN(const Found found,
                             Search(choice, choice == turn[0], StartOf(choice, usable), slopes, most));
    if (chosen < 0 || found.explained > best.explained + kGain) {
      best = found;
      chosen = choice;
    }
    if (!first.has_value()) first = found.explained;
    const double margin = found.explained - *first;
    Note(choice, found.theta, std::isfinite(margin) ? margin : -kComparable);
  }
  if (chosen < 0) return false;
  Use(chosen, best.theta);
  return true;
}

absl::StatusOr<bool> SurrogateFit::SearchSomeRows() {
  std::vector<Index> rows(static_cast<size_t>(data_.scores.size()));
  std::iota(rows.begin(), rows.end(), Index{0});
  base::RandomStream random = key_.Stream("bo/first_rows");
  random.Shuffle(rows);
  rows.resize(static_cast<size_t>(kFirstRows));
  std::sort(rows.begin(), rows.end());
  const MatrixXd x = data_.x(rows, Eigen::all);
  const VectorXd scores = data_.scores(rows);
  const gp::Slopes none;
  const SurrogateData some{x, scores, none};
  SurrogateFit of_some(options_, some, key_, stop_);
  LUTHIER_ASSIGN_OR_RETURN(const bool any, of_some.SearchChoices(/*usable=*/false, kFirstEvaluations));
  likelihoods_ += of_some.likelihoods_;
  if (!any || !TransformOf(of_some.state_.choice).has_value()) return false;
  state_ = std::move(of_some.state_);
  state_.observations = data_.scores.size();
  return true;
}

absl::StatusOr<std::vector<gp::Regression>> SurrogateFit::SampleStates(const VectorXd& outputs,
                                                                       const gp::Slopes& slopes) {
  std::vector<gp::Regression> states;
  const Index n = outputs.size() + slopes.size();
  if (n < kMinSampledRows || n > kMaxSampledRows) {
    state_.chain.resize(0);
    return states;
  }
  gp::SamplingOptions sampling;
  sampling.inference = InferenceFor(choice(), options_);
  sampling.states = kSampledStates;
  sampling.burn_in = n <= kFewRows ? kBurnIn : kShortBurnIn;
  gp::Likelihood likelihood(choice().shape, data_.x, outputs, slopes);
  std::optional<VectorXd> chain;
  if (state_.chain.size() > 0) chain = state_.chain;
  LUTHIER_ASSIGN_OR_RETURN(
      const gp::SamplingResult result,
      gp::SampleHyperparameters(&likelihood, sampling, chain, state_.theta,
                                key_.Stream("bo/mcmc", static_cast<uint32_t>(state_.choice)), stop_));
  likelihoods_ += static_cast<int>(result.counts.evaluations);
  state_.chain = result.chain;
  for (const gp::Hyperparameters& theta : result.states) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Regression> regression,
                             gp::Regression::Fit(choice().shape, theta, data_.x, outputs, slopes, stop_));
    if (regression.has_value()) states.push_back(*std::move(regression));
  }
  return states;
}

}  // namespace

absl::StatusOr<std::optional<Surrogate>> FitSurrogate(const SurrogateOptions& options, const SurrogateData& data,
                                                      const std::optional<SurrogateState>& carried, const AskKey& key,
                                                      bool renew, const base::StopToken& stop) {
  const Index n = data.scores.size();
  LUTHIER_CHECK(!options.choices.empty() && data.x.rows() == n && n >= 1);
  SurrogateFit fit(options, data, key, stop);
  SurrogateState& state = fit.state();
  if (carried.has_value()) state = *carried;
  // A choice whose warp does not suit the scores any more cannot be kept.
  const bool usable = carried.has_value() && fit.TransformOf(state.choice).has_value();
  const bool search =
      !usable || n < state.observations ||
      (renew && n >= state.observations + std::max<Index>(1, static_cast<Index>(state.observations) / 20)) ||
      // There are slopes, and the last fit had none.
      (data.slopes.size() > 0 && !(state.theta.slope_noise_variance > 0.0));
  bool of_all = false;  // The hyperparameters were searched with all rows.
  bool of_some = false;
  if (search && !usable && n > kFirstRows && data.slopes.size() == 0) {
    LUTHIER_ASSIGN_OR_RETURN(of_some, fit.SearchSomeRows());
  }
  if (search && !of_some) {
    LUTHIER_ASSIGN_OR_RETURN(of_all, fit.SearchChoices(usable, std::nullopt));
    if (!of_all) return std::nullopt;
  }
  std::optional<OutputTransform> transform = fit.TransformOf(state.choice);
  if (!transform.has_value()) return std::nullopt;
  const VectorXd outputs = transform->Forward(data.scores);
  const gp::Slopes slopes = fit.SlopesOf(*transform);
  std::vector<gp::Regression> states;
  if (options.sample) {
    LUTHIER_ASSIGN_OR_RETURN(states, fit.SampleStates(outputs, slopes));
  }
  if (states.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Regression> regression,
                             gp::Regression::Fit(fit.choice().shape, state.theta, data.x, outputs, slopes, stop));
    if (!regression.has_value()) return std::nullopt;
    if (!of_all) regression->FitMean();
    states.push_back(*std::move(regression));
  }
  return std::optional<Surrogate>(
      Surrogate{*std::move(transform), std::move(states), std::move(state), fit.likelihoods()});
}

absl::StatusOr<std::vector<Alternative>> FitAlternatives(const SurrogateOptions& options, const SurrogateData& data,
                                                         const SurrogateState& state, const MatrixXd& pending,
                                                         const base::StopToken& stop) {
  std::vector<Alternative> alternatives;
  if (options.sample || data.x.rows() + data.slopes.size() > kMaxAlternativeRows) return alternatives;
  std::vector<const SurrogateState::Start*> near;
  for (const SurrogateState::Start& other : state.others) {
    if (other.margin > -kComparable) near.push_back(&other);
  }
  std::sort(near.begin(), near.end(), [](const auto* a, const auto* b) {
    return a->margin != b->margin ? a->margin > b->margin : a->choice < b->choice;
  });
  if (near.size() > kMaxAlternatives) near.resize(kMaxAlternatives);
  const AskKey unused;
  SurrogateFit fit(options, data, unused, stop);
  for (const SurrogateState::Start* other : near) {
    const std::optional<OutputTransform>& transform = fit.TransformOf(other->choice);
    if (!transform.has_value()) continue;
    LUTHIER_ASSIGN_OR_RETURN(
        std::optional<gp::Regression> regression,
        gp::Regression::Fit(options.choices[static_cast<size_t>(other->choice)].shape, other->theta, data.x,
                            transform->Forward(data.scores), fit.SlopesOf(*transform), stop));
    if (!regression.has_value()) continue;
    regression->FitMean();
    for (Index i = 0; i < pending.rows(); ++i) {
      const double believed = regression->PredictMean(pending.row(i))(0);
      LUTHIER_RETURN_IF_ERROR(regression->Append(pending.row(i).transpose(), believed, stop).status());
    }
    const double weight = std::exp(0.5 * std::min(other->margin, 2.0 * kGain));
    alternatives.push_back({*transform, *std::move(regression), weight});
  }
  return alternatives;
}

}  // namespace luthier::search
