#include "lib/search/harmonica/designer.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/quasi_random/random_designer.h"

namespace luthier::search {
namespace {

constexpr size_t kStateBytes = 16384;

study::HistoryTrial Opened(const study::HistoryTrial& trial) {
  study::HistoryTrial open = trial;
  open.state = study::TrialState::kPending;
  open.value.reset();
  open.gradient.reset();
  open.failure.reset();
  return open;
}

}  // namespace

HarmonicaDesigner::HarmonicaDesigner(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                                     const NestedAlgorithms& nested)
    : nested_(nested),
      spec_(spec),
      options_(options),
      plan_(PlanHarmonica(spec, options)),
      multi_fidelity_(BaseIsMultiFidelity(options)),
      bits_(spec.space, options.float_bits, spec.seed),
      stages_(spec_, options_, plan_, bits_) {
  if (!plan_.staged) base_only_ = nested_.Create(BaseStudy(spec_, options_, plan_));
}

void HarmonicaDesigner::Refine(const std::vector<HarmonicaStage>& stages) {
  if (refinement_.designer != nullptr && refinement_.stages == stages) return;
  refinement_ = Refinement();
  refinement_.stages = stages;
  bool restricted = false;
  for (const HarmonicaStage& stage : stages) restricted = restricted || !stage.restrictions.empty();
  if (restricted) refinement_.space = std::make_unique<RestrictedSpace>(bits_, stages);
  const study::StudySpec spec =
      RefinedStudy(spec_, options_, plan_, restricted ? refinement_.space->space() : spec_.space, nested_);
  refinement_.designer = nested_.Create(spec);
  refinement_.uses_history = nested_.UsesHistory(spec);
}

std::optional<study::Parameters> HarmonicaDesigner::Projected(const study::HistoryTrial& trial,
                                                              const HarmonicaState& state) {
  if (refinement_.space == nullptr) return trial.parameters;
  std::optional<std::vector<int>> selection;
  if (state.kind == 'b') selection = state.selection;
  if (trial.number == 0) {
    return selection ? refinement_.space->Project(trial.parameters, selection) : std::nullopt;
  }
  auto [at, is_new] = refinement_.projections.try_emplace(trial.number);
  Refinement::Projection& known = at->second;
  if (is_new || known.parameters != trial.parameters || known.selection != selection) {
    known = {trial.parameters, selection, refinement_.space->Project(trial.parameters, selection)};
  }
  return known.projected;
}

bool HarmonicaDesigner::IsSeen(const study::HistoryTrial& trial, const HarmonicaState& state) const {
  if (state.kind == 'b') return true;
  if (multi_fidelity_) return false;
  // Values with less training than the base's trials get would mislead it.
  const bool in_part = state.kind == 's' && plan_.resource > 0 && plan_.resource < spec_.resource->max;
  return !in_part || trial.state == study::TrialState::kComplete;
}

// Returns the trials that lie in the restricted space, as the base would have seen them: its own asks by their index,
// all others as settings that users added. They have no gradients, because the coordinates differ.
absl::StatusOr<study::History> HarmonicaDesigner::BaseHistory(const study::History& history,
                                                              const base::StopToken& stop) {
  study::History seen;
  refinement_.numbers = {0};
  if (!refinement_.uses_history) return seen;
  const std::vector<study::HistoryTrial>& trials = history.trials();
  const auto most = static_cast<size_t>(spec_.budget.max_trials);
  // A multi-fidelity base must know when no new setting can come. Suggestions beyond the budget are never stored.
  const bool full = multi_fidelity_ && trials.size() >= most;
  const size_t rows = full ? most : trials.size();
  std::vector<int64_t> number(trials.size(), 0);
  std::vector<std::pair<size_t, study::Parameters>> suggested;  // Suggestions that are not stored yet.
  base::Pace pace(stop);
  for (size_t k = 0; k < rows; ++k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + bits_.encoding().compact_dim())));
    const HarmonicaState& state = stages_.states()[k];
    if (!IsSeen(trials[k], state)) continue;
    std::optional<study::Parameters> parameters = Projected(trials[k], state);
    if (!parameters) continue;
    if (trials[k].number == 0) {
      if (state.kind == 'b') suggested.emplace_back(k, *std::move(parameters));
      continue;
    }
    study::HistoryTrial trial = Opened(trials[k]);
    trial.number = number[k] = static_cast<int64_t>(refinement_.numbers.size());
    refinement_.numbers.push_back(trials[k].number);
    trial.parameters = *std::move(parameters);
    trial.ask_index.reset();
    if (state.kind == 'b') trial.ask_index = static_cast<uint64_t>(state.index);
    trial.designer_state = state.base;
    seen.AddStored(std::move(trial));
    if (trials[k].state == study::TrialState::kPaused) seen.Pause(number[k]);
  }
  for (const int k : history.finished()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    const auto at = static_cast<size_t>(k);
    if (number[at] == 0) continue;
    seen.Finish(number[at], trials[at].state, trials[at].value, std::nullopt, trials[at].failure, "", trials[at].step);
  }
  while (full && seen.trials().size() + suggested.size() < most) {
    study::HistoryTrial other;
    other.number = static_cast<int64_t>(seen.trials().size()) + 1;
    seen.AddStored(std::move(other));
    seen.Finish(static_cast<int64_t>(seen.trials().size()), study::TrialState::kCancelled, std::nullopt, std::nullopt,
                std::nullopt);
  }
  for (auto& [k, parameters] : suggested) {
    const HarmonicaState& state = stages_.states()[k];
    seen.AddSuggested(static_cast<uint64_t>(state.index), std::move(parameters), state.base, trials[k].resource);
  }
  return seen;
}

void HarmonicaDesigner::AddRecords(HarmonicaState* state) const {
  const auto count = static_cast<int>(stages_.stages().size());
  for (int q = count - stages_.unrecorded(); q < count; ++q) {
    state->records.push_back({q, stages_.stages()[static_cast<size_t>(q)]});
  }
}

Suggestion HarmonicaDesigner::SuggestSample() const {
  const auto stage = static_cast<int>(stages_.stages().size());
  HarmonicaState state;
  state.kind = 's';
  state.stage = stage;
  state.index = stages_.next_sample();
  AddRecords(&state);
  Suggestion suggestion;
  suggestion.parameters = stages_.Sample(stage, state.index);
  suggestion.resource = plan_.resource;
  suggestion.origin = "stage";
  suggestion.details = {{"stage", stage + 1.0}, {"sample", static_cast<double>(state.index)}};
  suggestion.designer_state = EncodeState(kHarmonicaStateKind, state);
  return suggestion;
}

// Suggests a random setting of the whole space, once every setting that the stages leave was tried.
Suggestion HarmonicaDesigner::Explore(HarmonicaState state, uint64_t ask_index) const {
  state.kind = 's';
  state.stage = plan_.stages;
  Suggestion suggestion;
  suggestion.parameters = ExplorationPoint(bits_.encoding(), spec_.seed, ask_index);
  suggestion.origin = "explore";
  suggestion.designer_state = EncodeState(kHarmonicaStateKind, state);
  return suggestion;
}

absl::StatusOr<Suggestion> HarmonicaDesigner::SuggestBase(const study::History& history, uint64_t ask_index,
                                                          const base::StopToken& stop) {
  Refine(stages_.stages());
  HarmonicaState state;
  state.kind = 'b';
  state.index = stages_.next_base();
  AddRecords(&state);
  LUTHIER_ASSIGN_OR_RETURN(const study::History seen, BaseHistory(history, stop));
  absl::StatusOr<Suggestion> base = refinement_.designer->Suggest(seen, static_cast<uint64_t>(state.index), stop);
  if (absl::IsCancelled(base.status())) return base.status();
  const bool full = static_cast<int64_t>(history.trials().size()) >= spec_.budget.max_trials;
  if (!base.ok() && multi_fidelity_ && (full || base::GetReason(base.status()) == base::reason::kAwaitingResults)) {
    return base.status();
  }
  Suggestion suggestion = base.ok() ? *std::move(base) : Explore(std::move(state), ask_index);
  suggestion.details["stages"] = static_cast<double>(stages_.stages().size());
  if (!base.ok()) return suggestion;
  suggestion.origin = absl::StrCat("base_", suggestion.origin);
  suggestion.direction.clear();
  suggestion.set_aside.clear();
  if (suggestion.resume) {
    suggestion.resume = refinement_.numbers[static_cast<size_t>(*suggestion.resume)];
    return suggestion;
  }
  if (refinement_.space != nullptr) {
    state.selection = refinement_.space->SelectionOf(suggestion.parameters);
    suggestion.parameters = refinement_.space->Embed(suggestion.parameters);
  }
  state.base = std::move(suggestion.designer_state);
  suggestion.designer_state = EncodeState(kHarmonicaStateKind, state);
  if (suggestion.designer_state.size() > kStateBytes) {
    state.base.clear();
    suggestion.designer_state = EncodeState(kHarmonicaStateKind, state);
  }
  return suggestion;
}

absl::StatusOr<Suggestion> HarmonicaDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                      const base::StopToken& stop) {
  if (base_only_ != nullptr) return base_only_->Suggest(history, ask_index, stop);
  LUTHIER_RETURN_IF_ERROR(stages_.Read(history, stop));
  if (!stages_.done()) return SuggestSample();
  return SuggestBase(history, ask_index, stop);
}

}  // namespace luthier::search
