#include "lib/search/hoag/hoag_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/math/sobol.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int32_t kMostChains = 100;
constexpr double kLinearWidth = 24.0;
constexpr size_t kFirstHalving = 8;  // Evaluations of every chain before the worse half ends.

// Width of the box of one scalar.
double WidthOf(const study::FloatRange& range) {
  const auto logit = [](double x) { return std::log(x) - std::log1p(-x); };
  switch (range.scale) {
    case study::Scale::kLinear:
      return kLinearWidth;
    case study::Scale::kLog:
      return std::log(range.max) - std::log(range.min);
    case study::Scale::kLogit:
      return logit(range.max) - logit(range.min);
  }
  LUTHIER_CHECK(false);
}

// Returns true if the trial's result, or its lack of one, tells something about the setting.
bool Answers(const study::HistoryTrial& trial) {
  switch (trial.state) {
    case study::TrialState::kComplete:
    case study::TrialState::kPruned:
      return true;
    case study::TrialState::kFailed:
      return trial.failure == study::FailureKind::kConfig;
    default:
      return false;
  }
}

}  // namespace

absl::Status ValidateHoag(const study::StudySpec& spec, const study::HoagOptions& options) {
  base::Violations violations;
  const std::string at = absl::StrCat("algorithm.", study::AlgorithmName(options));
  const study::Encoding encoding(spec.space);
  const auto& scalars = spec.space.differentiable();
  if (std::none_of(scalars.begin(), scalars.end(),
                   [&](const study::Scalar& s) { return encoding.coordinate_of(s.parameter) >= 0; })) {
    violations.Add(at, "moves along gradients, and the space has no float without step; use bo or random");
  }
  if (!(options.first_tolerance > 0.0 && options.first_tolerance <= 1e6)) {
    violations.Add(at + ".expert.first_tolerance",
                   absl::StrCat(study::FormatDouble(options.first_tolerance), " is not above 0 and at most 10^6"));
  }
  if (options.chains < 1 || options.chains > kMostChains) {
    violations.Add(at + ".chains", absl::StrCat(options.chains, " is not between 1 and ", kMostChains));
  }
  if (!(options.stop >= 0.0 && options.stop < 1.0)) {
    violations.Add(at + ".expert.stop",
                   absl::StrCat(study::FormatDouble(options.stop), " is not at least 0 and below 1"));
  }
  if (spec.reproducible && spec.budget.max_parallel > 1) {
    // A reproducible study hides the newest results until other trials have followed, and a waiting chain starts none.
    violations.Add("budget.max_parallel",
                   absl::StrCat("is ", spec.budget.max_parallel, ", and with reproducible ",
                                study::AlgorithmName(options), " goes one trial after the other; set it to 1"));
  }
  if (spec.resource) {
    violations.Add(at, "does not train in parts; leave out resource, or use asha");
  }
  const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (options.preset == study::HoagPreset::kIterdiff && builtin != nullptr && !builtin->options.contains("unroll")) {
    violations.Add("objective.builtin.options.unroll",
                   "is needed by iterdiff, which differentiates the steps of training: set it to gradient_descent, "
                   "heavy_ball or lbfgs, or use hoag");
  }
  return violations.ToStatus();
}

struct HoagDesigner::Chain {
  int index = 0;
  study::Parameters start;
  HoagChain rule;
  bool waits = false;              // True if the next evaluation is pending.
  std::vector<double> best_after;  // Best value after each answered evaluation.

  // Returns the best value after so many evaluations; that of a chain that has ended earlier is its best value.
  double BestAfter(size_t evaluations) const {
    const size_t counted = std::min(evaluations, best_after.size());
    return counted == 0 ? std::numeric_limits<double>::infinity() : best_after[counted - 1];
  }
};

HoagDesigner::HoagDesigner(const study::StudySpec& spec, const study::HoagOptions& options)
    : encoding_(spec.space),
      goal_(spec.metric.goal),
      options_(options),
      starts_(encoding_.compact_dim(), spec.seed, "hoag/start") {
  const std::vector<study::Scalar>& scalars = spec.space.differentiable();
  for (size_t i = 0; i < scalars.size(); ++i) {
    const int first = encoding_.coordinate_of(scalars[i].parameter);
    if (first < 0) continue;
    column_.push_back(first + scalars[i].element);
    entry_.push_back(static_cast<int>(i));
    width_.push_back(WidthOf(
        std::get<study::FloatRange>(spec.space.parameters()[static_cast<size_t>(scalars[i].parameter)].domain)));
  }
}

study::Parameters HoagDesigner::StartOf(int index) const {
  if (index == 0) return encoding_.space().Default();
  return encoding_.FromCompact(starts_.Point(static_cast<uint64_t>(index - 1)));
}

VectorXd HoagDesigner::ToPoint(const study::Parameters& parameters) const {
  const VectorXd u = encoding_.ToCompact(parameters);
  VectorXd point(static_cast<Index>(column_.size()));
  for (size_t j = 0; j < column_.size(); ++j) point[static_cast<Index>(j)] = width_[j] * u[column_[j]];
  return point;
}

study::Parameters HoagDesigner::ToSetting(const study::Parameters& start, const VectorXd& point) const {
  VectorXd u = encoding_.ToCompact(start);
  for (size_t j = 0; j < column_.size(); ++j) u[column_[j]] = point[static_cast<Index>(j)] / width_[j];
  return encoding_.FromCompact(u);
}

absl::StatusOr<HoagDesigner::Chain> HoagDesigner::Replay(int index, HoagVersion version,
                                                         const std::vector<const study::HistoryTrial*>& trials,
                                                         const base::StopToken& stop) const {
  const auto n = static_cast<Index>(column_.size());
  VectorXd upper(n);
  for (Index j = 0; j < n; ++j) upper[j] = width_[static_cast<size_t>(j)];
  study::Parameters start = StartOf(index);
  HoagChain rule(options_, ToPoint(start), VectorXd::Zero(n), upper, version);
  Chain chain{.index = index, .start = std::move(start), .rule = std::move(rule), .waits = false, .best_after = {}};
  base::Pace pace(stop);
  const double sign = goal_ == study::Goal::kMaximize ? -1.0 : 1.0;
  while (!chain.rule.ended()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(100 * (1 + static_cast<int64_t>(n))));
    const auto k = static_cast<size_t>(chain.rule.k());
    const study::HistoryTrial* trial = k < trials.size() ? trials[k] : nullptr;
    if (trial == nullptr) break;
    if (trial->open()) {
      chain.waits = true;
      break;
    }
    const bool whole = trial->state == study::TrialState::kComplete && trial->value && trial->gradient &&
                       trial->gradient->full() &&
                       trial->gradient->values.size() == encoding_.space().differentiable().size();
    HoagResult result;
    if (whole) {
      result.value = sign * *trial->value;
      result.gradient.resize(n);
      for (size_t j = 0; j < column_.size(); ++j) {
        const double by_user = trial->gradient->values[static_cast<size_t>(entry_[j])];
        result.gradient[static_cast<Index>(j)] =
            sign * by_user * encoding_.UserPerUnit(entry_[j], trial->parameters) / width_[j];
      }
      if (trial->gradient->solve) {
        result.tolerance = trial->gradient->solve->tolerance;
        result.outer_gradient_norm = trial->gradient->solve->outer_gradient_norm;
      }
    }
    if (whole && result.gradient.allFinite()) {
      chain.rule.Tell(result);
    } else {
      chain.rule.Fail();
    }
    chain.best_after.push_back(chain.rule.best());
  }
  return chain;
}

HoagDesigner::Evaluations HoagDesigner::Gather(const study::History& history) const {
  Evaluations trials;
  // Backtracking is the same in both versions.
  if (options_.step_rule == study::HoagStep::kBacktracking) trials.version = HoagVersion::kStepSize;
  for (const study::HistoryTrial& trial : history.trials()) {
    std::optional<HoagState> state = DecodeState<HoagState>(kHoagCurvatureStateKind, trial.designer_state);
    if (!state) {
      state = DecodeState<HoagState>(kHoagStateKind, trial.designer_state);
      if (state) trials.version = HoagVersion::kStepSize;
    }
    if (!state || !(trial.open() || Answers(trial))) continue;
    std::vector<const study::HistoryTrial*>& of = trials.of[state->chain];
    const auto k = static_cast<size_t>(state->evaluation);
    if (k > history.trials().size()) continue;
    if (of.size() <= k) of.resize(k + 1, nullptr);
    if (of[k] == nullptr || (of[k]->open() && !trial.open())) of[k] = &trial;
  }
  return trials;
}

void HoagDesigner::DropWorse(std::vector<Chain>* chains) {
  const auto ended = [](const Chain& chain) { return chain.rule.ended(); };
  for (size_t reached = kFirstHalving; chains->size() > 1; reached *= 2) {
    const bool all = std::all_of(chains->begin(), chains->end(), [&](const Chain& chain) {
      return ended(chain) || chain.best_after.size() >= reached;
    });
    if (!all) return;
    // Ties go to the older chain.
    std::stable_sort(chains->begin(), chains->end(),
                     [&](const Chain& x, const Chain& y) { return x.BestAfter(reached) < y.BestAfter(reached); });
    const bool all_ended = std::all_of(chains->begin(), chains->end(), ended);
    chains->erase(chains->begin() + static_cast<std::ptrdiff_t>((chains->size() + 1) / 2), chains->end());
    if (all_ended) return;
  }
}

absl::StatusOr<std::vector<HoagDesigner::Chain>> HoagDesigner::ChainsOf(Evaluations trials,
                                                                        const base::StopToken& stop) const {
  const auto replay = [&](int index) { return Replay(index, trials.version, trials.of[index], stop); };
  std::vector<Chain> chains;
  for (int index = 0; index < options_.chains; ++index) {
    LUTHIER_ASSIGN_OR_RETURN(Chain chain, replay(index));
    chains.push_back(std::move(chain));
  }
  DropWorse(&chains);
  // Chains that have ended make way for new ones.
  const size_t wanted = chains.size();
  std::erase_if(chains, [](const Chain& chain) { return chain.rule.ended(); });
  for (int index = options_.chains; chains.size() < wanted; ++index) {
    LUTHIER_ASSIGN_OR_RETURN(Chain chain, replay(index));
    if (!chain.rule.ended()) chains.push_back(std::move(chain));
  }
  return chains;
}

absl::StatusOr<Suggestion> HoagDesigner::Suggest(const study::History& history, uint64_t /*ask_index*/,
                                                 const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  Evaluations trials = Gather(history);
  const bool by_curvature = trials.version == HoagVersion::kCurvature;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Chain> chains, ChainsOf(std::move(trials), stop));
  const Chain* turn = nullptr;
  for (const Chain& chain : chains) {
    if (chain.waits) continue;
    if (turn == nullptr || chain.best_after.size() < turn->best_after.size()) turn = &chain;
  }
  if (turn == nullptr) {
    return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kAwaitingResults,
                           "every chain waits for the result of its last step");
  }
  const HoagChain& rule = turn->rule;
  Suggestion suggestion;
  const bool first = rule.k() == 1;
  suggestion.parameters = first ? turn->start : ToSetting(turn->start, rule.point());
  suggestion.origin = first ? "hoag_start" : "hoag";
  suggestion.designer_state =
      EncodeState(by_curvature ? kHoagCurvatureStateKind : kHoagStateKind, HoagState{turn->index, rule.k()});
  if (const double tolerance = rule.tolerance(); tolerance > 0.0) suggestion.tolerance = tolerance;
  suggestion.details = {{"chain", turn->index}, {"evaluation", rule.k()}, {"tolerance", rule.tolerance()}};
  if (!first) {
    suggestion.details["inverse_step"] = rule.inverse_step();
    suggestion.details["gradient_mapping"] = rule.mapping();
    suggestion.details["rejected"] = rule.rejected();
  }
  return suggestion;
}

}  // namespace luthier::search
