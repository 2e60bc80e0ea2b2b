#include "lib/search/bo/bo_designer.h"

#include <limits>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/turns/answer.h"
#include "lib/search/bo/turns/exploration.h"
#include "lib/search/bo/turns/front_turn.h"
#include "lib/search/bo/turns/initial.h"
#include "lib/search/bo/turns/labels.h"
#include "lib/search/bo/turns/noise.h"
#include "lib/search/bo/turns/proposal.h"

namespace luthier::search {

absl::StatusOr<Suggestion> BoDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                               const base::StopToken& stop) {
  if (declared_.encoding.compact_dim() == 0) return OnlySetting(declared_, history);
  BoState state = StateBefore(history, ask_index);
  const BoStudy& study = StudyFor(state);
  Ask ask{.history = history, .index = ask_index, .state = &state, .stop = stop};
  LUTHIER_ASSIGN_OR_RETURN(Suggestion suggestion, Choose(study, &ask));
  suggestion.designer_state = FormatBoState(state);
  if (state.noise_by > 0) suggestion.details[kNoiseFoundBy] = static_cast<double>(state.noise_by);
  LUTHIER_RETURN_IF_ERROR(AddGradients(study, ask, &suggestion));
  return suggestion;
}

BoState BoDesigner::StateBefore(const study::History& history, uint64_t ask_index) const {
  BoState state;
  if (const study::HistoryTrial* last = history.LastAskBefore(ask_index); last != nullptr) {
    state = ParseBoState(last->designer_state, declared_.surrogate.choices);
    state.kind = AskKind::kModel;
    state.index = 0;
  }
  if (!declared_.finds_noise) {
    state.noise_by = 0;
  } else if (state.noise_by == 0) {
    state.noise_by = NoiseShownBy(history);
  }
  return state;
}

const BoStudy& BoDesigner::StudyFor(const BoState& state) {
  if (state.noise_by == 0) return declared_;
  if (noisy_ == nullptr) {
    study::BoOptions options = declared_.options;
    options.noisy = true;
    noisy_ = std::make_unique<BoStudy>(declared_.spec, options);
  }
  return *noisy_;
}

absl::StatusOr<std::vector<Prediction>> BoDesigner::Predict(const study::History& history,
                                                            const std::vector<study::Parameters>& settings,
                                                            const base::StopToken& stop) {
  const auto none = [](const char* reason, const char* why) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, reason, why);
  };
  if (declared_.encoding.compact_dim() == 0) return none(base::reason::kNoModel, "nothing varies in the study's space");
  if (declared_.wide) return none(base::reason::kNoModel, "the space has more scalars than a model can be fitted to");
  const study::HistoryTrial* const last = history.LastAskBefore(std::numeric_limits<uint64_t>::max());
  const uint64_t index = last == nullptr ? 0 : last->ask_index.value_or(0) + 1;
  BoState state = StateBefore(history, index);
  const BoStudy& study = StudyFor(state);
  Ask ask{.history = history, .index = index, .state = &state, .stop = stop};
  LUTHIER_RETURN_IF_ERROR(ReadHistory(study, &ask));
  if (study.finds_noise) LeaveOutProbes(&ask);
  LUTHIER_RETURN_IF_ERROR(TakeData(study, &ask));
  if (ask.data.scores.size() < 2) {
    return none(base::reason::kTooFewResults, "a model needs two results; ask again when there are some");
  }
  LUTHIER_RETURN_IF_ERROR(FitFeasibility(study, &ask));
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BoModel> model, FitBoModel(study, ask));
  if (!model.has_value()) {
    return none(base::reason::kTooFewResults, "no model explains the results so far; ask again when there are more");
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Alternative> alternatives, AlternativesTo(study, ask, *model));
  std::vector<Prediction> predictions;
  for (const study::Parameters& setting : settings) {
    predictions.push_back(
        PredictAt(*model, alternatives, study.goal, study.encoding.ToModel(setting), Extrapolation::kWithinARange));
    if (const FeasibilityModel* const feasible = ask.Feasible(); feasible != nullptr) {
      predictions.back().p_success = feasible->Probability(study.encoding.ToModel(setting));
    }
  }
  return predictions;
}

absl::StatusOr<std::optional<Recommendation>> BoDesigner::Recommend(const study::History& history,
                                                                    const base::StopToken& stop) {
  if (declared_.encoding.compact_dim() == 0 || declared_.wide || !declared_.recommends) return std::nullopt;
  const study::HistoryTrial* const last = history.LastAskBefore(std::numeric_limits<uint64_t>::max());
  const uint64_t index = last == nullptr ? 0 : last->ask_index.value_or(0) + 1;
  BoState state = StateBefore(history, index);
  const BoStudy& study = StudyFor(state);
  if (!study.options.SaidNoisy()) return std::nullopt;
  Ask ask{.history = history, .index = index, .state = &state, .stop = stop};
  LUTHIER_RETURN_IF_ERROR(ReadHistory(study, &ask));
  LUTHIER_RETURN_IF_ERROR(TakeData(study, &ask));
  if (ask.data.scores.size() < 2) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BoModel> model, FitBoModel(study, ask));
  if (!model.has_value()) return std::nullopt;
  return RecommendFrom(study, ask, *model, state.noise_by);
}

absl::StatusOr<Suggestion> BoDesigner::Choose(const BoStudy& study, Ask* ask) const {
  LUTHIER_RETURN_IF_ERROR(ReadHistory(study, ask));
  if (study.finds_noise) LeaveOutProbes(ask);
  if (Exhausted(ask->all) && !study.options.SaidNoisy()) return Replacement(study, *ask, "stuck_random");
  LUTHIER_RETURN_IF_ERROR(TakeData(study, ask));
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> exploration, ExplorationTurn(study, *ask));
  if (exploration.has_value()) return *std::move(exploration);
  if (InDesign(study, *ask)) {
    ask->state->kind = AskKind::kInitial;
    return InitialPoint(study, *ask, "init");
  }
  if (std::optional<Suggestion> probe = ProbeTurn(study, *ask); probe.has_value()) return *std::move(probe);
  if (!study.wide) {
    LUTHIER_RETURN_IF_ERROR(FitFeasibility(study, ask));
  }
  if (study.SeveralObjectives()) return FrontTurn(study, *ask);
  LUTHIER_ASSIGN_OR_RETURN(std::optional<LocalMove> move, LocalTurn(study, *ask));
  if (study.wide && !move.has_value()) return NearBest(study, *ask, "near_best");
  if (move.has_value() && (!study.weighs_steps || TakesQuasiNewton(study, *ask))) {
    *ask->state = std::move(move->state);
    return std::move(move->suggestion);
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> restart, BoxTurn(study, ask));
  if (restart.has_value()) return *std::move(restart);
  return Propose(study, *ask, std::move(move));
}

absl::StatusOr<std::optional<Suggestion>> BoDesigner::BoxTurn(const BoStudy& study, Ask* ask) const {
  if (study.table.has_value() || !UsesTrustBox(study.options, study.encoding)) return std::nullopt;
  const int64_t first = ask->state->box > 0 ? ask->state->box : 1;
  const int64_t now = static_cast<int64_t>(ask->history.trials().size()) + 1;
  ask->box = FollowTrustBox(ask->history, study.encoding, study.goal, first, ask->violations);
  if (ask->box->ended) ask->box = FollowTrustBox(ask->history, study.encoding, study.goal, now, ask->violations);
  ask->state->box = ask->box->first;
  if (ask->box->first == 1 || now - ask->box->first >= study.initial_points) return std::nullopt;
  // The centre of a new box is the best of some new points.
  return InitialPoint(study, *ask, "restart");
}

absl::StatusOr<Suggestion> BoDesigner::Propose(const BoStudy& study, const Ask& ask,
                                               std::optional<LocalMove> move) const {
  BoState* const state = ask.state;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BoModel> model, FitBoModel(study, ask));
  const auto make_move = [&] {
    *state = std::move(move->state);
    if (model.has_value()) KeepModels(*model, state);
    return std::move(move->suggestion);
  };
  if (!model.has_value()) return move.has_value() ? make_move() : Replacement(study, ask, "gp_failed");
  LUTHIER_RETURN_IF_ERROR(CheckAnswered(study, ask, *model));
  std::optional<Recommendation> recommended;
  if (study.recommends && study.options.SaidNoisy()) {
    LUTHIER_ASSIGN_OR_RETURN(recommended, RecommendFrom(study, ask, *model, state->noise_by));
    if (recommended.has_value()) {
      LUTHIER_RETURN_IF_ERROR(CheckRecommended(study, ask, *recommended));
      if (std::optional<Suggestion> again = ConfirmTurn(study, ask, *recommended); again.has_value()) {
        KeepModels(*model, state);
        return *std::move(again);
      }
    }
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<DueLabel> due, LabelTurn(study, ask, *model));
  std::optional<Proposal> of_label;
  if (due.has_value()) {
    LUTHIER_ASSIGN_OR_RETURN(of_label, ProposeLabel(study, ask, *model, *due));
    if (!of_label->candidate.has_value()) of_label.reset();
  }
  Proposal proposal;
  if (of_label.has_value()) {
    proposal = *std::move(of_label);
    state->kind = AskKind::kLabel;
    state->index = due->coordinate;
    move.reset();
  } else {
    LUTHIER_ASSIGN_OR_RETURN(proposal, search::Propose(study, ask, *model));
  }
  const std::optional<MaximizeCandidate>& candidate = proposal.candidate;
  if (move.has_value() && (!candidate.has_value() || IsTried(ask.all, candidate->u) ||
                           PrefersStep(study, ask, *move, *model, *candidate, proposal.basins.away))) {
    return make_move();
  }
  state->basins = std::move(proposal.basins);
  if (!candidate.has_value()) return Replacement(study, ask, "all_random");
  Suggestion suggestion;
  suggestion.origin = std::move(proposal.origin);
  suggestion.details = std::move(proposal.details);
  LUTHIER_RETURN_IF_ERROR(Settle(study, ask, *model, *candidate, &suggestion));
  if (recommended.has_value()) {
    suggestion.details["recommended"] = static_cast<double>(recommended->trial);
    suggestion.details["recommended_mean"] = recommended->mean;
    suggestion.details["recommended_sd"] = recommended->sd;
    suggestion.details["noise_sd"] = recommended->noise_sd;
  }
  KeepModels(*model, state);
  return suggestion;
}

absl::Status BoDesigner::Settle(const BoStudy& study, const Ask& ask, const BoModel& model,
                                const MaximizeCandidate& candidate, Suggestion* suggestion) const {
  suggestion->parameters = candidate.parameters;
  const bool tried = IsTried(ask.all, candidate.u), exhausted = tried && Exhausted(ask.all);
  // For a noisy objective the most promising setting is measured again.
  if (exhausted) suggestion->origin = "repeat";
  if (tried && !exhausted) {
    LUTHIER_ASSIGN_OR_RETURN(Suggestion other, Replacement(study, ask, "stuck_random", ask.Feasible()));
    other.details = std::move(suggestion->details);  // The details about the bounds still hold.
    *suggestion = std::move(other);
  }
  if (suggestion->origin != "stuck_random") {
    LUTHIER_RETURN_IF_ERROR(Describe(study, ask, model, candidate, suggestion));
  }
  if (const FeasibilityModel* const feasible = ask.Feasible(); feasible != nullptr) {
    suggestion->details["p_feasible"] = feasible->Probability(study.encoding.ToModel(suggestion->parameters));
  }
  return absl::OkStatus();
}

}  // namespace luthier::search
