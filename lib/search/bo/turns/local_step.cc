#include "lib/search/bo/turns/local_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/local/quasi_newton.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kUnknownLengthscale = 0.3;  // Before any model was fitted.
// Results for each coordinate (and one) before climbing begins. Climbs from the first results start in whichever basin
// came first: half of the runs on Hartmann-6 then ended in its second-best one, with 2 to 4 few did.
constexpr int kResultsToClimb = 4;
// Local steps between two proposals of the model: so many, and further ones after a step that improved the incumbent.
// With whole gradients steps are better.
constexpr int kSteps = 1, kGradientSteps = 2;
constexpr int kStepsAfterRecord = 3;
// Each improvement that a step gives while the model gives none earns one more, up to so many.
constexpr int kMaxSteps = 5, kMaxGradientSteps = 6;
// Steps that are likely to fail are given up, and their climbs go on with a smaller step, at most so many times.
constexpr int kRetreats = 6;
// Where steps are weighed against the model's proposals. While the model looks at other basins than the incumbent's,
// whose promise is not one of an improvement, a step of at least so many output deviations is made, and a smaller one
// every fourth time: it waits for this many proposals between two.
constexpr double kStepWorthwhile = 5e-5;
constexpr int kStepWaits = 3;
constexpr int kNewClimbs = 3;  // Climbs that one quasi-Newton turn begins, where those before have ended.

// What earlier steps came to.
struct Steps {
  std::map<int64_t, int64_t> climbs;  // Trial that was a step -> site of its climb.
  int run = 0;                        // Steps since the last ask that was neither a step nor explored.
  int earned = 0;                     // Improvements by steps since the model's last one.
  bool incumbent = false;             // The last step improved the incumbent.
};

absl::StatusOr<Steps> ReadSteps(const BoStudy& study, const Ask& ask) {
  Steps steps;
  double best = -std::numeric_limits<double>::infinity();
  base::Pace pace(ask.stop);
  for (const PastAsk& past : ask.past) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial));
    const study::HistoryTrial& trial = *past.trial;
    bool better = false;
    if (trial.state == study::TrialState::kComplete) {
      const double score = study::Score(study.goal, *trial.value);
      better = score > best;
      best = std::max(best, score);
    }
    if (!past.asked) continue;
    if (past.head.kind == AskKind::kLocalStep) {
      ++steps.run;
      steps.incumbent = better;
      if (better) ++steps.earned;
      steps.climbs[trial.number] = past.head.index;
    } else if (past.head.kind != AskKind::kExploration) {
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

}  // namespace

absl::StatusOr<std::optional<LocalMove>> LocalTurn(const BoStudy& study, const Ask& ask) {
  const Observations& data = ask.data;
  const study::Encoding& encoding = study.encoding;
  const FeasibilityModel* const feasible = ask.Feasible();
  if (study.options.noisy || study.options.trust_region == study::BoTrustRegion::kOff || study.table.has_value()) {
    return std::nullopt;
  }
  // Whole gradients count as further results, and make better steps.
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
  for (const Index row : ask.data.CompleteRows()) incumbent = std::max(incumbent, ask.data.scores(row));
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
