#include "lib/search/multi_fidelity/rung_sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/study/encoding.h"
#include "lib/study/metrics.h"
#include "lib/study/rung_order.h"

namespace luthier::search {
namespace {

using study::HistoryTrial;
using study::TrialState;

constexpr int64_t kCountingATrial = 50;  // Operations.

study::StudySpec SamplerSpecOf(const study::StudySpec& spec) {
  study::StudySpec nested = spec;
  nested.algorithm = study::AsAlgorithm(*study::SamplerOf(spec.algorithm));
  // A sampler must not be multi-fidelity itself.
  if (auto* automatic = std::get_if<study::AutoOptions>(&nested.algorithm)) automatic->rules = 0;
  // Results of rungs are no repetitions of each other.
  if (auto* bo = std::get_if<study::BoOptions>(&nested.algorithm)) bo->rules = 0;
  return nested;
}

// Returns the number of asks in `history` for new settings.
uint64_t SettingsSoFar(const study::History& history) {
  uint64_t count = 0;
  for (const HistoryTrial& trial : history.trials()) count += trial.ask_index ? 1 : 0;
  return count;
}

// Returns the newest point with a finite value, in studies with StudySpec::metrics of all metrics; null if there is
// none.
const study::CurvePoint* NewestFinite(const study::StudySpec& spec, const HistoryTrial& trial) {
  for (auto point = trial.points.rbegin(); point != trial.points.rend(); ++point) {
    if (std::isfinite(point->value) && study::HasAllValues(spec, point->values)) return &*point;
  }
  return nullptr;
}

// Notes the values of all metrics, and their gradients, in a study with StudySpec::metrics.
void NoteValues(const study::StudySpec& spec, int64_t number, const std::vector<double>& values,
                std::vector<std::optional<study::Gradient>> gradients, study::History* history) {
  if (values.empty()) return;
  HistoryTrial result;
  result.values = values;
  result.feasible = study::IsFeasible(spec.metrics, values);
  result.gradients = std::move(gradients);
  history->NoteMetrics(number, result);
}

}  // namespace

absl::StatusOr<study::History> HistoryAtRung(const study::History& history, const std::vector<int64_t>& steps,
                                             size_t enough, const study::StudySpec& spec, const base::StopToken& stop) {
  base::Pace pace(stop);
  size_t rung = steps.size() - 1;
  for (; rung > 0; --rung) {
    size_t results = 0;
    for (const HistoryTrial& trial : history.trials()) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kCountingATrial));
      const std::optional<study::RungResult> result = study::ResultAt(spec, trial, steps[rung]);
      results += result && std::isfinite(result->loss) ? 1 : 0;
    }
    if (results >= enough) break;
  }
  std::map<uint64_t, uint64_t> settings;  // Ask index -> index among the asks for settings.
  for (const HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kCountingATrial));
    if (trial.ask_index) settings[*trial.ask_index] = 0;
  }
  uint64_t next = 0;
  for (auto& [ask, setting] : settings) setting = next++;

  study::History view;
  for (const HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * static_cast<int64_t>(10 + trial.parameters.size())));
    if (trial.number == 0) {
      view.AddSuggested(settings.at(*trial.ask_index), trial.parameters, trial.designer_state);
      continue;
    }
    HistoryTrial stored;
    stored.number = trial.number;
    if (trial.ask_index) stored.ask_index = settings.at(*trial.ask_index);
    stored.parameters = trial.parameters;
    stored.designer_state = trial.designer_state;
    stored.reporter = trial.reporter;
    view.AddStored(std::move(stored));
  }
  for (const HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kCountingATrial));
    if (trial.number == 0) continue;
    const std::optional<study::RungResult> result = study::ResultAt(spec, trial, steps[rung]);
    const auto failure = trial.failure.value_or(study::FailureKind::kConfig);
    if (result && std::isfinite(result->loss)) {
      const bool whole = rung + 1 == steps.size() && trial.state == TrialState::kComplete;
      view.Finish(trial.number, TrialState::kComplete, study::Score(spec.metric.goal, -result->loss),
                  whole ? trial.gradient : std::nullopt, std::nullopt);
      NoteValues(spec, trial.number, result->values, whole ? trial.gradients : decltype(trial.gradients)(), &view);
    } else if (trial.state == TrialState::kPaused || trial.state == TrialState::kPruned) {
      const study::CurvePoint* const newest = NewestFinite(spec, trial);
      view.Finish(trial.number, TrialState::kPruned, newest != nullptr ? newest->value : trial.value, std::nullopt,
                  std::nullopt);
      NoteValues(spec, trial.number, newest != nullptr ? newest->values : trial.values, {}, &view);
    } else if (result || trial.state == TrialState::kFailed) {
      view.Finish(trial.number, TrialState::kFailed, std::nullopt, std::nullopt, failure);
    } else if (trial.state == TrialState::kCancelled) {
      view.Finish(trial.number, TrialState::kCancelled, std::nullopt, std::nullopt, std::nullopt);
    }
  }
  return view;
}

RungSampler::RungSampler(const study::StudySpec& spec, std::vector<int64_t> steps, const NestedAlgorithms& nested)
    : spec_(spec),
      steps_(std::move(steps)),
      uses_history_(nested.UsesHistory(SamplerSpecOf(spec))),
      enough_(static_cast<size_t>(study::Encoding(spec.space).compact_dim()) + 2),
      designer_(nested.Create(SamplerSpecOf(spec))) {}

absl::StatusOr<Suggestion> RungSampler::Suggest(const study::History& history, const base::StopToken& stop) {
  const uint64_t setting = SettingsSoFar(history);
  if (!uses_history_) return designer_->Suggest(study::History(), setting, stop);
  LUTHIER_ASSIGN_OR_RETURN(const study::History view, HistoryAtRung(history, steps_, enough_, spec_, stop));
  return designer_->Suggest(view, setting, stop);
}

}  // namespace luthier::search
