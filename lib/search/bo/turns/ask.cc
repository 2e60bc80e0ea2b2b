#include "lib/search/bo/turns/ask.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/pareto/dominance.h"
#include "lib/search/bo/local/quasi_newton.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/search/bo/model/gradient_check.h"
#include "lib/search/bo/model/metric_models.h"
#include "lib/study/compact_column.h"
#include "lib/study/metrics.h"

namespace luthier::search {

using Eigen::VectorXd;

namespace {

constexpr int64_t kMinCheck = 5;  // Number of results from which on slopes are checked against values.
constexpr int kManyParameters = 20;
// Number of trials before the first climb, which begins at the better of them; they need not have gradients.
constexpr int kResultsToStep = 2;
// Number of scalars that a model is fitted to at most. With more, one suggestion would take longer than a second, and
// quasi-Newton steps gain more.
constexpr int kMostModelledWithGradients = 200, kMostModelled = 1000;

int ContinuousCoordinates(const study::Encoding& encoding) {
  int count = 0;
  for (int c = 0; c < encoding.compact_dim(); ++c) count += encoding.Levels(c).has_value() ? 0 : 1;
  return count;
}

// Returns the results as those of the metric at `position`, with the slopes that are reported of it.
Observations OfMetric(const BoStudy& study, const Ask& ask, size_t position) {
  Observations data = ask.data;
  const study::MetricSpec& metric = study.spec.metrics[position];
  const study::Goal goal = GoalOf(metric);
  const GradientUnits units(study.encoding, goal);
  data.slopes.assign(data.number.size(), {});
  for (size_t i = 0; i < data.number.size(); ++i) {
    const study::HistoryTrial& trial = ask.history.trials()[static_cast<size_t>(data.number[i] - 1)];
    data.complete[i] = data.complete[i] && trial.values.size() == study.spec.metrics.size();
    if (!data.complete[i]) continue;
    data.scores(static_cast<Eigen::Index>(i)) = study::Score(goal, trial.values[position]);
    if (position >= trial.gradients.size() || !trial.gradients[position]) continue;
    data.slopes[i] = units.FromUser(*trial.gradients[position], trial.parameters);
  }
  return data;
}

// Returns the reporters whose slopes contradict the values, beside those set aside `before`.
absl::StatusOr<std::vector<int32_t>> Contradicting(const BoStudy& study, const Ask& ask, const Observations& data,
                                                   const std::vector<int32_t>& reporters,
                                                   const std::vector<int32_t>& before) {
  if (study.many_gradients) return ContradictingClimbs(data, reporters, before, ask.stop);
  // In a study without climbs, one slope of each very long gradient is checked against the values.
  std::optional<Observations> steepest;
  if (study.wide) {
    steepest = data;
    for (ScoreSlopes& slopes : steepest->slopes) {
      if (!slopes.axes.empty()) slopes = Steepest(slopes, study.encoding.model_dim());
    }
  }
  return ContradictingReporters(steepest ? *steepest : data, reporters, study.surrogate, before, KeyOf(study, ask),
                                ask.stop);
}

// Decides anew who is set aside: whose slopes of any metric contradict its values.
absl::Status CheckReporters(const BoStudy& study, const std::vector<int32_t>& reporters, Ask* ask) {
  const std::vector<int32_t> before = ask->state->set_aside;
  std::set<int32_t> set_aside;
  const auto check = [&](const Observations& data) -> absl::Status {
    // The check of one metric of several may take back those alone who report slopes of it.
    std::set<int32_t> present;
    for (size_t i = 0; i < reporters.size(); ++i) {
      if (!data.slopes[i].empty()) present.insert(reporters[i]);
    }
    if (present.empty()) return absl::OkStatus();
    std::vector<int32_t> own;
    std::copy_if(before.begin(), before.end(), std::back_inserter(own), [&](int32_t r) { return present.contains(r); });
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<int32_t> found,
                             Contradicting(study, *ask, data, reporters, study.spec.metrics.empty() ? before : own));
    set_aside.insert(found.begin(), found.end());
    return absl::OkStatus();
  };
  if (!ask->data.slopes.empty()) LUTHIER_RETURN_IF_ERROR(check(ask->data));
  for (size_t position = 0; position < study.spec.metrics.size(); ++position) {
    if (position == study.objectives.front()) continue;
    LUTHIER_RETURN_IF_ERROR(check(OfMetric(study, *ask, position)));
  }
  ask->state->set_aside.assign(set_aside.begin(), set_aside.end());
  return absl::OkStatus();
}

absl::Status TakeSlopes(const BoStudy& study, Ask* ask) {
  Observations& data = ask->data;
  std::vector<int32_t> reporters;
  bool any = false;
  data.slopes.clear();
  base::Pace pace(ask->stop);
  for (size_t i = 0; i < data.number.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + study.encoding.model_dim())));
    const study::HistoryTrial& trial = ask->history.trials()[static_cast<size_t>(data.number[i] - 1)];
    data.slopes.emplace_back();
    if (data.complete[i] && trial.gradient) {
      data.slopes.back() = study.units.FromUser(*trial.gradient, trial.parameters);
    }
    reporters.push_back(trial.reporter);
    any = any || !data.slopes.back().empty() ||
          std::any_of(trial.gradients.begin(), trial.gradients.end(), [](const auto& g) { return g.has_value(); });
  }
  if (!any) {
    data.slopes.clear();
    return absl::OkStatus();
  }
  BoState* const state = ask->state;
  const int64_t n = static_cast<int64_t>(ask->history.finished().size());
  if (n >= kMinCheck && n >= state->checked + std::max<int64_t>(1, state->checked / 20)) {
    LUTHIER_RETURN_IF_ERROR(CheckReporters(study, reporters, ask));
    state->checked = n;
  }
  any = false;
  for (size_t i = 0; i < reporters.size(); ++i) {
    if (std::binary_search(state->set_aside.begin(), state->set_aside.end(), reporters[i])) data.slopes[i] = {};
    any = any || !data.slopes[i].empty();
  }
  if (!any) data.slopes.clear();
  return absl::OkStatus();
}

// Returns what each row of ask.all is worth in a study of several objectives: the front most, and results beyond the
// bounds least.
absl::StatusOr<VectorXd> WorthOfRows(const BoStudy& study, const Ask& ask) {
  const Observations& all = ask.all;
  VectorXd worth = VectorXd::Constant(all.scores.size(), -std::numeric_limits<double>::infinity());
  std::vector<Eigen::Index> rows = all.FeasibleRows();
  std::erase_if(rows, [&](Eigen::Index row) {
    const int64_t number = all.number[static_cast<size_t>(row)];
    return ask.history.trials()[static_cast<size_t>(number - 1)].values.size() != study.spec.metrics.size();
  });
  Eigen::MatrixXd scores(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(study.objectives.size()));
  for (size_t k = 0; k < rows.size(); ++k) {
    const int64_t number = all.number[static_cast<size_t>(rows[k])];
    const std::vector<double> of_trial =
        study::ScoresOf(study.spec, ask.history.trials()[static_cast<size_t>(number - 1)].values);
    scores.row(static_cast<Eigen::Index>(k)) = Eigen::Map<const Eigen::RowVectorXd>(of_trial.data(), scores.cols());
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int> layers, pareto::Layers(scores, ask.stop));
  for (size_t k = 0; k < rows.size(); ++k) worth(rows[k]) = -layers[k];
  return worth;
}

std::vector<size_t> ObjectivesOf(const study::StudySpec& spec) {
  std::vector<size_t> objectives;
  for (size_t j = 0; j < spec.metrics.size(); ++j) {
    if (spec.metrics[j].objective) objectives.push_back(j);
  }
  return objectives;
}

// Returns true if labels keep a floor of trials. A study that ends once it is answered trusts the model.
bool HasLabels(const study::StudySpec& spec, const study::BoOptions& options, const study::Encoding& encoding) {
  if (options.rules < 3 || study::ObjectiveCount(spec) > 1 || spec.budget.until_answered.value_or(false)) return false;
  const std::vector<study::ParameterSpec>& parameters = spec.space.parameters();
  return study::AnyUnordered(encoding) ||
         std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.condition.has_value(); });
}

// Returns the options that a study goes by. Where results are noisy, the upper confidence bound takes the place of log
// expected improvement: with much noise the best posterior mean is in part luck, and improvements on it lead astray.
study::BoOptions OptionsFor(const study::StudySpec& spec, study::BoOptions options) {
  if (Recommends(spec, options) && options.SaidNoisy() && options.acquisition == study::BoAcquisition::kLogEi) {
    options.acquisition = study::BoAcquisition::kUcb;
  }
  return options;
}

}  // namespace

BoStudy::BoStudy(const study::StudySpec& study_spec, const study::BoOptions& bo_options)
    : spec(study_spec),
      encoding(spec.space, spec.constraints),
      goal(spec.metric.goal),
      objectives(ObjectivesOf(spec)),
      seed(spec.seed),
      options(OptionsFor(spec, bo_options)),
      initial_points(InitialPoints(options, encoding.compact_dim())),
      weighs_steps(study::AnyUnordered(encoding) && (options.acquisition == study::BoAcquisition::kLogEi ||
                                                     options.acquisition == study::BoAcquisition::kEi)),
      many_gradients(options.gradients == study::BoGradients::kFull && !options.SaidNoisy() && objectives.size() <= 1 &&
                     options.trust_region != study::BoTrustRegion::kOff &&
                     ContinuousCoordinates(encoding) > kManyParameters),
      one_slope_each(options.gradients == study::BoGradients::kDirectional || many_gradients),
      learns_from_first_gradients(LearnsFromFirstGradients(spec, options)),
      wide(encoding.compact_dim() > (many_gradients ? kMostModelledWithGradients : kMostModelled)),
      explores_first(options.explore_every > 0 && options.exploration != study::BoExploration::kFarthest),
      until_answered(spec.budget.until_answered.value_or(false)),
      recommends(Recommends(spec, options)),
      design(encoding.compact_dim(), spec.seed, "bo/init"),
      surrogate(ModelsFor(encoding, options)),
      units(encoding, spec.metric.goal),
      table(SettingTable::Create(encoding)),
      finds_noise(FindsNoise(spec, options) && !(table.has_value() && table->size() <= spec.budget.max_trials)),
      has_labels(HasLabels(spec, options, encoding)) {}

bool HasWholeGradients(const BoStudy& study, const Ask& ask) {
  if (static_cast<int>(ask.history.finished().size()) < kResultsToStep) return false;
  const QuasiNewtonLog log{ask.history, study.encoding, study.goal, study.units, ask.state->set_aside};
  return std::any_of(ask.data.number.begin(), ask.data.number.end(), [&](int64_t number) {
    return HasWholeGradient(log, ask.history.trials()[static_cast<size_t>(number - 1)]);
  });
}

bool TakesQuasiNewton(const BoStudy& study, const Ask& ask) {
  return study.many_gradients && ask.in_doubt.empty() && HasWholeGradients(study, ask);
}

absl::Status ReadHistory(const BoStudy& study, Ask* ask) {
  base::Pace pace(ask->stop);
  for (const study::HistoryTrial& trial : ask->history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial));
    const bool asked = trial.ask_index.has_value();
    ask->past.push_back({&trial, asked, asked ? ParseAskHead(trial.designer_state) : AskHead()});
  }
  if (study::HasBounds(study.spec)) {
    ask->in_doubt = BoundsInDoubt(study.spec.metrics, ask->history);
    ask->violations = study::ViolationsOf(study.spec, ask->history);
  }
  ask->failures = AnyFailed(ask->history);
  LUTHIER_ASSIGN_OR_RETURN(ask->all, Collect(ask->history, study.encoding, study.goal, study.Table(), !ask->failures,
                                             ask->stop, ask->violations));
  if (study.options.rules >= 3) LiftPruned(ask->history, &ask->all);
  return absl::OkStatus();
}

absl::Status TakeData(const BoStudy& study, Ask* ask) {
  VectorXd worth;
  // A Lipschitz constant rules out more with more results.
  const bool nearby =
      study.options.rules >= 2 && !study.SeveralObjectives() && study.options.lipschitz == study::BoLipschitz::kOff;
  const ThinParts& parts = nearby ? kThinPartsNearby : kThinParts;
  if (study.SeveralObjectives() && ask->all.scores.size() > parts.rows()) {
    LUTHIER_ASSIGN_OR_RETURN(worth, WorthOfRows(study, *ask));
  }
  const std::vector<int> groups = study.encoding.ModelGroups();
  VectorXd lengthscales = VectorXd::Ones(static_cast<Eigen::Index>(groups.size()));
  if (const std::optional<SurrogateState>& model = ask->state->surrogate; model.has_value()) {
    for (Eigen::Index j = 0; j < lengthscales.size(); ++j)
      lengthscales(j) = model->theta.lengthscales(groups[static_cast<size_t>(j)]);
  }
  ask->data = Thin(ask->all, parts, study.seed, ask->index, worth.size() > 0 ? &worth : nullptr, lengthscales);
  if (study.options.gradients == study::BoGradients::kOff) return absl::OkStatus();
  return TakeSlopes(study, ask);
}

absl::Status FitFeasibility(const BoStudy& study, Ask* ask) {
  if (!ask->failures) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const FeasibilityData outcomes, CollectFeasibility(ask->history, study.encoding, ask->stop));
  LUTHIER_ASSIGN_OR_RETURN(ask->feasible,
                           FeasibilityModel::Fit(outcomes, study.encoding, ask->state->feasibility, ask->stop));
  if (ask->feasible.has_value()) ask->state->feasibility = ask->feasible->next();
  return absl::OkStatus();
}

absl::Status AddGradients(const BoStudy& study, const Ask& ask, Suggestion* suggestion) {
  if (study.options.gradients == study::BoGradients::kOff) return absl::OkStatus();
  if (study.options.gradients == study::BoGradients::kDirectional) {
    LUTHIER_ASSIGN_OR_RETURN(suggestion->direction,
                             study.units.RandomDirection(suggestion->parameters, study.seed, ask.index, ask.stop));
  }
  const std::vector<int32_t>& set_aside = ask.state->set_aside;
  if (set_aside.empty()) return absl::OkStatus();
  for (const study::HistoryTrial& trial : ask.history.trials()) {
    const bool any = trial.gradient || std::any_of(trial.gradients.begin(), trial.gradients.end(),
                                                   [](const auto& gradient) { return gradient.has_value(); });
    if (trial.state == study::TrialState::kComplete && any &&
        std::binary_search(set_aside.begin(), set_aside.end(), trial.reporter)) {
      suggestion->set_aside.push_back(trial.number);
    }
  }
  suggestion->details["gradients_set_aside"] = static_cast<double>(suggestion->set_aside.size());
  return absl::OkStatus();
}

}  // namespace luthier::search
