#include "lib/suggest/harmonica_designer.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/suggest/random_designer.h"
#include "lib/suggest/registry.h"

namespace luthier::suggest {
namespace {

constexpr size_t kCarryBytes = 16384;

study::HistoryTrial Opened(const study::HistoryTrial& trial) {
  study::HistoryTrial open = trial;
  open.state = study::TrialState::kPending;
  open.value.reset();
  open.gradient.reset();
  open.failure.reset();
  return open;
}

}  // namespace

HarmonicaDesigner::HarmonicaDesigner(const study::StudySpec& spec, const study::HarmonicaOptions& options)
    : spec_(spec),
      options_(options),
      plan_(PlanHarmonica(spec, options)),
      bits_(spec.space, BitOptionsOf(options), spec.seed),
      stages_(spec_, options_, plan_, bits_) {
  if (!plan_.staged) base_only_ = CreateDesigner(BaseSpec(spec_.space));
}

study::StudySpec HarmonicaDesigner::BaseSpec(const study::SearchSpace& space) const {
  study::StudySpec spec = spec_;
  spec.space = space;
  spec.algorithm = BaseAlgorithm(options_);
  // Options are checked when the study is created; this is what only the space shows, e.g. a grid of too many points.
  if (!Validate(spec).ok()) spec.algorithm = study::RandomOptions{};
  return spec;
}

void HarmonicaDesigner::Refine(const std::vector<HarmonicaStage>& stages) {
  if (refinement_.designer != nullptr && refinement_.stages == stages) return;
  refinement_ = Refinement();
  refinement_.stages = stages;
  bool restricted = false;
  for (const HarmonicaStage& stage : stages) restricted = restricted || !stage.restrictions.empty();
  if (restricted) refinement_.space = std::make_unique<RestrictedSpace>(bits_, stages);
  const study::StudySpec spec = BaseSpec(restricted ? refinement_.space->space() : spec_.space);
  refinement_.designer = CreateDesigner(spec);
  refinement_.uses_history = InfoOf(spec.algorithm).uses_history;
}

std::optional<study::Parameters> HarmonicaDesigner::Projected(const study::HistoryTrial& trial,
                                                              const HarmonicaCarry& carry) {
  if (refinement_.space == nullptr) return trial.parameters;
  if (carry.kind == 'b') return refinement_.space->Project(trial.parameters, carry.selection);
  if (trial.number == 0) return std::nullopt;
  auto& [parameters, projected] = refinement_.projected[trial.number];
  if (parameters != trial.parameters) {
    parameters = trial.parameters;
    projected = refinement_.space->Project(parameters, std::nullopt);
  }
  return projected;
}

// The trials that lie in the restricted space, as the base would have seen them: its own asks by their index, all
// others as settings that users gave. Without gradients: coordinates are not the same.
study::History HarmonicaDesigner::BaseHistory(const study::History& history) {
  study::History seen;
  if (!refinement_.uses_history) return seen;
  const std::vector<study::HistoryTrial>& trials = history.trials();
  std::vector<int64_t> number(trials.size(), 0);
  int64_t count = 0;
  for (size_t k = 0; k < trials.size(); ++k) {
    const HarmonicaCarry& carry = stages_.carries()[k];
    std::optional<study::Parameters> parameters = Projected(trials[k], carry);
    if (!parameters) continue;
    if (trials[k].number == 0) {
      if (carry.kind == 'b') seen.AddSuggested(static_cast<uint64_t>(carry.index), *std::move(parameters), carry.base);
      continue;
    }
    study::HistoryTrial trial = Opened(trials[k]);
    trial.number = number[k] = ++count;
    trial.parameters = *std::move(parameters);
    trial.ask_index.reset();
    if (carry.kind == 'b') trial.ask_index = static_cast<uint64_t>(carry.index);
    trial.carry = carry.base;
    seen.AddStored(std::move(trial));
  }
  for (const int k : history.finished()) {
    const auto at = static_cast<size_t>(k);
    if (number[at] == 0) continue;
    seen.Finish(number[at], trials[at].state, trials[at].value, std::nullopt, trials[at].failure);
  }
  return seen;
}

void HarmonicaDesigner::AddRecords(HarmonicaCarry* carry) const {
  const auto count = static_cast<int>(stages_.stages().size());
  for (int q = count - stages_.unrecorded(); q < count; ++q) {
    carry->records.emplace_back(q, FormatStage(stages_.stages()[static_cast<size_t>(q)]));
  }
}

Suggestion HarmonicaDesigner::SuggestSample() const {
  const auto stage = static_cast<int>(stages_.stages().size());
  HarmonicaCarry carry;
  carry.kind = 's';
  carry.stage = stage;
  carry.index = stages_.next_sample();
  AddRecords(&carry);
  Suggestion suggestion;
  suggestion.parameters = stages_.Sample(stage, carry.index);
  suggestion.origin = "stage";
  suggestion.details = {{"stage", stage + 1.0}, {"sample", static_cast<double>(carry.index)}};
  suggestion.carry = FormatCarry(carry);
  return suggestion;
}

Suggestion HarmonicaDesigner::SuggestBase(const study::History& history, uint64_t ask_index) {
  Refine(stages_.stages());
  HarmonicaCarry carry;
  carry.kind = 'b';
  carry.index = stages_.next_base();
  AddRecords(&carry);
  absl::StatusOr<Suggestion> base =
      refinement_.designer->Suggest(BaseHistory(history), static_cast<uint64_t>(carry.index));
  Suggestion suggestion;
  if (base.ok()) {
    suggestion = *std::move(base);
    suggestion.origin = absl::StrCat("base_", suggestion.origin);
    suggestion.direction.clear();
    suggestion.set_aside.clear();
    if (refinement_.space != nullptr) {
      carry.selection = refinement_.space->SelectionOf(suggestion.parameters);
      suggestion.parameters = refinement_.space->Embed(suggestion.parameters);
    }
    carry.base = std::move(suggestion.carry);
    suggestion.carry = FormatCarry(carry);
    if (suggestion.carry.size() > kCarryBytes) {
      carry.base.clear();
      suggestion.carry = FormatCarry(carry);
    }
  } else {
    // Every setting that is left has been tried; the others have not.
    carry.kind = 's';
    carry.stage = plan_.stages;
    suggestion.parameters = ExplorationPoint(bits_.encoding(), spec_.seed, ask_index);
    suggestion.origin = "explore";
    suggestion.carry = FormatCarry(carry);
  }
  suggestion.details["stages"] = static_cast<double>(stages_.stages().size());
  return suggestion;
}

absl::StatusOr<Suggestion> HarmonicaDesigner::Suggest(const study::History& history, uint64_t ask_index) {
  if (base_only_ != nullptr) return base_only_->Suggest(history, ask_index);
  stages_.Read(history);
  return stages_.done() ? SuggestBase(history, ask_index) : SuggestSample();
}

}  // namespace luthier::suggest
