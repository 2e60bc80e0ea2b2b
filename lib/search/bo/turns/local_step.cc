#include "lib/search/bo/turns/local_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/local/border_search.h"
#include "lib/search/bo/local/quasi_newton.h"
#include "lib/study/metrics.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kUnknownLengthscale = 0.3;  // Lengthscale before any model was fitted.
// Number of results before climbing begins, as a multiple of d + 1. Climbs from the first results start in an arbitrary
// basin: half of the runs on Hartmann-6 then ended in its second-best one, and few did with multiples of 2 to 4.
constexpr Index kResultsToClimb = 4;
constexpr Index kResultsToFollowBounds = 2;  // The same within bounds, whose own models know more of where to go.
// Numbers of local steps between two proposals of the model, without and with whole gradients, whose steps are better;
// and the number after a step that improved the incumbent.
constexpr int kSteps = 1, kGradientSteps = 2;
constexpr int kStepsAfterRecord = 3;
// Each improvement by a step since the model's last one allows one step more, up to these numbers.
constexpr int kMaxSteps = 5, kMaxGradientSteps = 6;
// Number of smaller steps that are tried, at most, in place of a step that is likely to fail.
constexpr int kRetreats = 6;
// Limits for weighing steps against the model's proposals while the model searches other basins than the incumbent's,
// where the two gains cannot be compared (PrefersStep). A step that gains more output deviations than the first is
// made; a smaller one waits for as many proposals as the second.
constexpr double kStepWorthwhile = 5e-5;
constexpr int kStepWaits = 3;
constexpr int kNewClimbs = 3;  // Number of climbs that one quasi-Newton turn may begin, if those before have ended.

// Counts of the steps so far.
struct Steps {
  std::map<int64_t, int64_t> climbs;  // Trial that was a step -> site of its climb.
  int run = 0;                        // Steps since the last ask that was neither a step nor explored.
  int earned = 0;                     // Improvements by steps since the model's last one.
  bool incumbent = false;             // True if the last step improved the incumbent.
};

absl::StatusOr<Steps> ReadSteps(const BoStudy& study, const Ask& ask) {
  Steps steps;
  std::optional<study::Merit> best;
  base::Pace pace(ask.stop);
  for (const PastAsk& past : ask.past) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial));
    const study::HistoryTrial& trial = *past.trial;
    bool better = false;
    if (trial.state == study::TrialState::kComplete) {
      const double score = study::Score(study.goal, *trial.value);
      const double violation = ask.violations.empty() ? 0.0 : ask.violations[static_cast<size_t>(trial.number - 1)];
      const study::Merit merit{violation, score};
      better = !best.has_value() || study::IsBetter(merit, *best);
      if (better) best = merit;
    }
    if (!past.asked) continue;
    if (past.head.kind == AskKind::kLocalStep) {
      ++steps.run;
      steps.incumbent = better;
      if (better) ++steps.earned;
      steps.climbs[trial.number] = past.head.index;
    } else if (past.head.kind != AskKind::kExploration && past.head.kind != AskKind::kMember &&
               past.head.kind != AskKind::kLabel) {
      steps.run = 0;
      if (better && past.head.kind == AskKind::kModel) steps.earned = 0;
    }
  }
  return steps;
}

// Returns the step of the newest climb, or, once it has ended, of a new one from the best result of no climb.
absl::StatusOr<std::optional<LocalMove>> QuasiNewtonMove(const BoStudy& study, const Ask& ask, const Steps& steps) {
  const QuasiNewtonLog log{ask.history, study.encoding, study.goal, study.units, ask.state->set_aside};
  const int64_t trials = static_cast<int64_t>(ask.history.trials().size());
  int64_t site = 0;
  std::set<int64_t> climbed;  // Trials that belong to climbs.
  for (const auto& [number, begin] : steps.climbs) {
    site = begin;
    climbed.insert({number, begin});
  }
  QuasiNewtonAnswer answer;
  for (int attempt = 0; attempt <= kNewClimbs; ++attempt) {
    if (site > 0 && site <= trials && HasWholeGradient(log, ask.history.trials()[static_cast<size_t>(site - 1)])) {
      LUTHIER_ASSIGN_OR_RETURN(answer, SuggestQuasiNewton(log, site, ask.stop));
      if (answer.outcome != ClimbOutcome::kEnded) break;
    }
    const study::HistoryTrial* best = nullptr;
    for (const PastAsk& past : ask.past) {
      LUTHIER_RETURN_IF_ERROR(ask.stop.Poll());
      const study::HistoryTrial& trial = *past.trial;
      if (climbed.contains(trial.number) || !HasWholeGradient(log, trial)) continue;
      if (best == nullptr || study::Score(study.goal, *trial.value) > study::Score(study.goal, *best->value)) {
        best = &trial;
      }
    }
    if (best == nullptr) return std::nullopt;
    site = best->number;
    climbed.insert(site);
  }
  if (answer.outcome != ClimbOutcome::kStep) return std::nullopt;
  const FeasibilityModel* const feasible = ask.Feasible();
  LocalMove move;
  move.predicted_end = answer.step->best + answer.step->predicted_gain;
  move.state = *ask.state;
  move.state.kind = AskKind::kLocalStep;
  move.state.index = site;
  Suggestion& suggestion = move.suggestion;
  suggestion.origin = "quasi_newton";
  suggestion.parameters = std::move(answer.step->parameters);
  suggestion.details["predicted_gain"] = answer.step->predicted_gain;
  suggestion.details["radius"] = answer.step->length;
  suggestion.details["site"] = static_cast<double>(site);
  if (feasible != nullptr) {
    suggestion.details["p_feasible"] = feasible->Probability(study.encoding.ToModel(suggestion.parameters));
  }
  return std::optional<LocalMove>(std::move(move));
}

// Returns the results that steps within bounds are made from.
BorderResults ResultsOf(const BoStudy& study, const Ask& ask) {
  BorderResults results;
  results.rows = MeasuredRows(study, ask);
  const std::vector<double> spreads = study::SpreadsOf(study.spec, ask.history);
  for (const size_t j : ask.in_doubt) {
    const study::MetricSpec& spec = study.spec.metrics[j];
    BorderMetric metric;
    metric.values.resize(static_cast<Index>(results.rows.size()));
    for (size_t k = 0; k < results.rows.size(); ++k) {
      const int64_t number = ask.data.number[static_cast<size_t>(results.rows[k])];
      metric.values(static_cast<Index>(k)) = ask.history.trials()[static_cast<size_t>(number - 1)].values[j];
    }
    if (spec.at_least.has_value()) metric.lower = *spec.at_least;
    if (spec.at_most.has_value()) metric.upper = *spec.at_most;
    metric.spread = spreads[j];
    results.metrics.push_back(std::move(metric));
  }
  return results;
}

// Returns a step within the bounds in doubt, when it is its turn.
absl::StatusOr<std::optional<LocalMove>> BorderTurn(const BoStudy& study, const Ask& ask) {
  const study::Encoding& encoding = study.encoding;
  const FeasibilityModel* const feasible = ask.Feasible();
  if (study.wide) return std::nullopt;
  const BorderResults results = ResultsOf(study, ask);
  if (static_cast<Index>(results.rows.size()) < kResultsToFollowBounds * (encoding.compact_dim() + 1)) {
    return std::nullopt;
  }
  LUTHIER_ASSIGN_OR_RETURN(const Steps steps, ReadSteps(study, ask));
  int allowed = std::min(kMaxSteps, kSteps + steps.earned);
  if (steps.incumbent) allowed = std::max(allowed, kStepsAfterRecord);
  if (steps.run >= allowed) return std::nullopt;
  BorderClimb climb = ask.state->border.value_or(BorderClimb());
  double chance = 1.0;
  std::optional<BorderMove> step;
  for (int retreat = 0; retreat <= kRetreats; ++retreat) {
    LUTHIER_ASSIGN_OR_RETURN(step, SuggestBorderMove(ask.data, results, encoding, &climb, ask.stop));
    if (!step.has_value() || feasible == nullptr) break;
    chance = feasible->Probability(encoding.ToModel(step->parameters));
    if (chance >= feasible->doubtful()) break;
    climb = step->next;
    step.reset();
  }
  if (!step.has_value()) {
    ask.state->border = std::move(climb);
    return std::nullopt;
  }
  LocalMove move;
  move.predicted_end =
      step->best_feasible ? step->best + step->predicted_gain : std::numeric_limits<double>::infinity();
  move.state = *ask.state;
  move.state.kind = AskKind::kLocalStep;
  move.state.border = std::move(step->next);
  Suggestion& suggestion = move.suggestion;
  suggestion.origin = "trust_region";
  suggestion.parameters = std::move(step->parameters);
  suggestion.details["predicted_gain"] = step->predicted_gain;
  suggestion.details["radius"] = move.state.border->state.radius;
  suggestion.details["bounds_met"] = step->active;
  if (feasible != nullptr) suggestion.details["p_feasible"] = chance;
  return std::optional<LocalMove>(std::move(move));
}

}  // namespace

absl::StatusOr<std::optional<LocalMove>> LocalTurn(const BoStudy& study, const Ask& ask) {
  const Observations& data = ask.data;
  const study::Encoding& encoding = study.encoding;
  const FeasibilityModel* const feasible = ask.Feasible();
  if (study.options.SaidNoisy() || study.options.trust_region == study::BoTrustRegion::kOff ||
      study.table.has_value()) {
    return std::nullopt;
  }
  if (!ask.in_doubt.empty()) return BorderTurn(study, ask);
  // Whole gradients count as further results; steps with them are better.
  Index facts = data.scores.size();
  for (const ScoreSlopes& slopes : data.slopes) facts += static_cast<Index>(slopes.axes.size());
  const bool gradients = facts > data.scores.size();
  const bool quasi_newton = TakesQuasiNewton(study, ask);
  if (!quasi_newton && study.wide) return std::nullopt;
  if (!quasi_newton && facts < kResultsToClimb * (encoding.compact_dim() + 1)) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const Steps steps, ReadSteps(study, ask));
  const BasinsState& basins = ask.state->basins;
  std::optional<int64_t> elsewhere;
  if (basins.away) elsewhere = basins.best_other;
  int allowed = gradients ? kGradientSteps : kSteps;
  if (!basins.away) allowed = std::min(gradients ? kMaxGradientSteps : kMaxSteps, allowed + steps.earned);
  if (steps.incumbent) allowed = std::max(allowed, gradients ? kMaxGradientSteps : kStepsAfterRecord);
  if (steps.run >= allowed && !study.wide) return std::nullopt;
  if (quasi_newton) return QuasiNewtonMove(study, ask, steps);
  LocalSearchState local = ask.state->local.value_or(LocalSearchState());
  const std::optional<SurrogateState>& model = ask.state->surrogate;
  const VectorXd lengthscales =
      model.has_value() ? model->theta.lengthscales : VectorXd::Constant(encoding.compact_dim(), kUnknownLengthscale);
  LUTHIER_ASSIGN_OR_RETURN(std::optional<LocalStep> step,
                           SuggestLocalStep(data, steps.climbs, encoding, lengthscales, &local, elsewhere, ask.stop));
  double chance = 1.0;
  for (int retreat = 0; feasible != nullptr && step.has_value(); ++retreat) {
    chance = feasible->Probability(encoding.ToModel(step->parameters));
    if (chance >= feasible->doubtful()) break;
    local = step->next;
    step.reset();
    if (retreat == kRetreats) break;
    LUTHIER_ASSIGN_OR_RETURN(step,
                             SuggestLocalStep(data, steps.climbs, encoding, lengthscales, &local, elsewhere, ask.stop));
  }
  if (!step.has_value()) {
    ask.state->local = std::move(local);
    return std::nullopt;
  }
  LocalMove move;
  move.predicted_end = step->next.last().state.anchor + step->predicted_gain;
  move.state = *ask.state;
  move.state.kind = AskKind::kLocalStep;
  move.state.index = step->next.last().site;
  move.state.local = step->next;
  Suggestion& suggestion = move.suggestion;
  suggestion.origin = "trust_region";
  suggestion.parameters = step->parameters;
  suggestion.details["predicted_gain"] = step->predicted_gain;
  suggestion.details["radius"] = step->next.last().state.radius;
  suggestion.details["site"] = static_cast<double>(step->next.last().site);
  if (feasible != nullptr) suggestion.details["p_feasible"] = chance;
  return std::optional<LocalMove>(std::move(move));
}

bool PrefersStep(const BoStudy& study, const Ask& ask, const LocalMove& move, const BoModel& model,
                 const MaximizeCandidate& candidate, bool away) {
  double incumbent = -std::numeric_limits<double>::infinity();
  for (const Index row : ask.data.FeasibleRows()) incumbent = std::max(incumbent, ask.data.scores(row));
  const double end = move.predicted_end;
  const OutputTransform& transform = model.surrogate.transform;
  const double worth = end > incumbent ? transform.Forward(end) - transform.Forward(incumbent) : 0.0;
  if (!away) {
    const bool logarithm = study.options.acquisition == study::BoAcquisition::kLogEi;
    return worth > (logarithm ? std::exp(candidate.value) : candidate.value);
  }
  if (worth > kStepWorthwhile) return true;
  int waited = 0;
  for (const PastAsk& past : ask.past) {
    if (!past.asked) continue;
    waited = past.head.kind == AskKind::kLocalStep ? 0 : waited + (past.head.kind == AskKind::kModel ? 1 : 0);
  }
  return waited >= kStepWaits;
}

}  // namespace luthier::search
