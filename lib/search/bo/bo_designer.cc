#include "lib/search/bo/bo_designer.h"

#include <limits>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/turns/answer.h"
#include "lib/search/bo/turns/exploration.h"
#include "lib/search/bo/turns/front_turn.h"
#include "lib/search/bo/turns/initial.h"
#include "lib/search/bo/turns/proposal.h"

namespace luthier::search {

absl::StatusOr<Suggestion> BoDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                               const base::StopToken& stop) {
  if (study_.encoding.compact_dim() == 0) return OnlySetting(study_, history);
  BoState state = StateBefore(history, ask_index);
  Ask ask{.history = history, .index = ask_index, .state = &state, .stop = stop};
  LUTHIER_ASSIGN_OR_RETURN(Suggestion suggestion, Choose(&ask));
  suggestion.designer_state = FormatBoState(state);
  LUTHIER_RETURN_IF_ERROR(AddGradients(study_, ask, &suggestion));
  return suggestion;
}

BoState BoDesigner::StateBefore(const study::History& history, uint64_t ask_index) const {
  BoState state;
  if (const study::HistoryTrial* last = history.LastAskBefore(ask_index); last != nullptr) {
    state = ParseBoState(last->designer_state, study_.surrogate.choices);
    state.kind = AskKind::kModel;
    state.index = 0;
  }
  return state;
}

absl::StatusOr<std::vector<Prediction>> BoDesigner::Predict(const study::History& history,
                                                            const std::vector<study::Parameters>& settings,
                                                            const base::StopToken& stop) {
  const auto none = [](const char* reason, const char* why) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, reason, why);
  };
  if (study_.encoding.compact_dim() == 0) return none(base::reason::kNoModel, "nothing varies in the study's space");
  if (study_.wide) return none(base::reason::kNoModel, "the space has more scalars than a model can be fitted to");
  const study::HistoryTrial* const last = history.LastAskBefore(std::numeric_limits<uint64_t>::max());
  const uint64_t index = last == nullptr ? 0 : last->ask_index.value_or(0) + 1;
  BoState state = StateBefore(history, index);
  Ask ask{.history = history, .index = index, .state = &state, .stop = stop};
  LUTHIER_RETURN_IF_ERROR(ReadHistory(study_, &ask));
  LUTHIER_RETURN_IF_ERROR(TakeData(study_, &ask));
  if (ask.data.scores.size() < 2) {
    return none(base::reason::kTooFewResults, "a model needs two results; ask again when there are some");
  }
  LUTHIER_RETURN_IF_ERROR(FitFeasibility(study_, &ask));
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BoModel> model, FitBoModel(study_, ask));
  if (!model.has_value()) {
    return none(base::reason::kTooFewResults, "no model explains the results so far; ask again when there are more");
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Alternative> alternatives, AlternativesTo(study_, ask, *model));
  std::vector<Prediction> predictions;
  for (const study::Parameters& setting : settings) {
    predictions.push_back(
        PredictAt(*model, alternatives, study_.goal, study_.encoding.ToModel(setting), Extrapolation::kWithinARange));
    if (const FeasibilityModel* const feasible = ask.Feasible(); feasible != nullptr) {
      predictions.back().p_success = feasible->Probability(study_.encoding.ToModel(setting));
    }
  }
  return predictions;
}

absl::StatusOr<Suggestion> BoDesigner::Choose(Ask* ask) const {
  LUTHIER_RETURN_IF_ERROR(ReadHistory(study_, ask));
  if (Exhausted(ask->all) && !study_.options.SaidNoisy()) return Replacement(study_, *ask, "stuck_random");
  LUTHIER_RETURN_IF_ERROR(TakeData(study_, ask));
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> exploration, ExplorationTurn(study_, *ask));
  if (exploration.has_value()) return *std::move(exploration);
  if (InDesign(study_, *ask)) {
    ask->state->kind = AskKind::kInitial;
    return InitialPoint(study_, *ask, "init");
  }
  if (!study_.wide) {
    LUTHIER_RETURN_IF_ERROR(FitFeasibility(study_, ask));
  }
  if (study_.SeveralObjectives()) return FrontTurn(study_, *ask);
  LUTHIER_ASSIGN_OR_RETURN(std::optional<LocalMove> move, LocalTurn(study_, *ask));
  if (study_.wide && !move.has_value()) return NearBest(study_, *ask, "near_best");
  if (move.has_value() && (!study_.weighs_steps || TakesQuasiNewton(study_, *ask))) {
    *ask->state = std::move(move->state);
    return std::move(move->suggestion);
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> restart, BoxTurn(ask));
  if (restart.has_value()) return *std::move(restart);
  return Propose(*ask, std::move(move));
}

absl::StatusOr<std::optional<Suggestion>> BoDesigner::BoxTurn(Ask* ask) const {
  if (study_.table.has_value() || !UsesTrustBox(study_.options, study_.encoding)) return std::nullopt;
  const int64_t first = ask->state->box > 0 ? ask->state->box : 1;
  const int64_t now = static_cast<int64_t>(ask->history.trials().size()) + 1;
  ask->box = FollowTrustBox(ask->history, study_.encoding, study_.goal, first, ask->violations);
  if (ask->box->ended) ask->box = FollowTrustBox(ask->history, study_.encoding, study_.goal, now, ask->violations);
  ask->state->box = ask->box->first;
  if (ask->box->first == 1 || now - ask->box->first >= study_.initial_points) return std::nullopt;
  // The centre of a new box is the best of some new points.
  return InitialPoint(study_, *ask, "restart");
}

absl::StatusOr<Suggestion> BoDesigner::Propose(const Ask& ask, std::optional<LocalMove> move) const {
  BoState* const state = ask.state;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BoModel> model, FitBoModel(study_, ask));
  const auto make_move = [&] {
    *state = std::move(move->state);
    if (model.has_value()) KeepModels(*model, state);
    return std::move(move->suggestion);
  };
  if (!model.has_value()) return move.has_value() ? make_move() : Replacement(study_, ask, "gp_failed");
  LUTHIER_RETURN_IF_ERROR(CheckAnswered(study_, ask, *model));
  LUTHIER_ASSIGN_OR_RETURN(Proposal proposal, search::Propose(study_, ask, *model));
  const std::optional<MaximizeCandidate>& candidate = proposal.candidate;
  if (move.has_value() && (!candidate.has_value() || IsTried(ask.all, candidate->u) ||
                           PrefersStep(study_, ask, *move, *model, *candidate, proposal.basins.away))) {
    return make_move();
  }
  state->basins = std::move(proposal.basins);
  if (!candidate.has_value()) return Replacement(study_, ask, "all_random");
  Suggestion suggestion;
  suggestion.origin = std::move(proposal.origin);
  suggestion.details = std::move(proposal.details);
  LUTHIER_RETURN_IF_ERROR(Settle(ask, *model, *candidate, &suggestion));
  KeepModels(*model, state);
  return suggestion;
}

absl::Status BoDesigner::Settle(const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                                Suggestion* suggestion) const {
  suggestion->parameters = candidate.parameters;
  const bool tried = IsTried(ask.all, candidate.u), exhausted = tried && Exhausted(ask.all);
  // For a noisy objective the most promising setting is measured again.
  if (exhausted) suggestion->origin = "repeat";
  if (tried && !exhausted) {
    LUTHIER_ASSIGN_OR_RETURN(Suggestion other, Replacement(study_, ask, "stuck_random", ask.Feasible()));
    other.details = std::move(suggestion->details);  // The details about the bounds still hold.
    *suggestion = std::move(other);
  }
  if (suggestion->origin != "stuck_random") {
    LUTHIER_RETURN_IF_ERROR(Describe(study_, ask, model, candidate, suggestion));
  }
  if (const FeasibilityModel* const feasible = ask.Feasible(); feasible != nullptr) {
    suggestion->details["p_feasible"] = feasible->Probability(study_.encoding.ToModel(suggestion->parameters));
  }
  return absl::OkStatus();
}

}  // namespace luthier::search
