#include "lib/search/multi_fidelity/asha_designer.h"

#include <cmath>
#include <optional>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/rung_order.h"

namespace luthier::search {
namespace {

using study::HistoryTrial;
using study::TrialState;

// Returns the promotion from the rung at `step` to `next`, if there is one.
absl::StatusOr<std::optional<Suggestion>> Promotion(const study::StudySpec& spec, const study::History& history,
                                                    int64_t step, int64_t next, int32_t eta,
                                                    const base::StopToken& stop) {
  std::vector<study::RungResult> results;
  std::vector<const HistoryTrial*> arrived;
  int64_t gone_on = 0;
  bool any_paused = false;
  for (const HistoryTrial& trial : history.trials()) {
    std::optional<study::RungResult> result = study::ResultAt(spec, trial, step);
    if (!result) continue;
    result->tie = trial.number;
    results.push_back(*std::move(result));
    arrived.push_back(&trial);
    gone_on += trial.resource > step ? 1 : 0;
    any_paused = any_paused || (trial.state == TrialState::kPaused && trial.resource <= step);
  }
  const int64_t best = static_cast<int64_t>(arrived.size()) / eta;
  if (!any_paused || gone_on >= best) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                           study::RungOrder(spec, results, static_cast<size_t>(best), stop));
  // An early finisher holds a slot only while it is among the best.
  for (const size_t place : order) {
    const HistoryTrial& trial = *arrived[place];
    gone_on += trial.state == TrialState::kComplete && trial.resource <= step ? 1 : 0;
  }
  if (gone_on >= best) return std::nullopt;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double loss = results[order[rank]].loss;
    const HistoryTrial& trial = *arrived[order[rank]];
    if (!std::isfinite(loss)) break;
    if (trial.state != TrialState::kPaused || trial.resource > step) continue;
    Suggestion promotion;
    promotion.resume = trial.number;
    promotion.resource = next;
    promotion.origin = "promote";
    promotion.details = {
        {"rank", static_cast<double>(rank + 1)}, {"of", static_cast<double>(arrived.size())}, {"loss", loss}};
    return promotion;
  }
  return std::nullopt;
}

// Returns true if a result still to come may let a trial go on. Every result adds to its rung, so any open trial that
// is not PAUSED counts.
bool MayStillPromote(const study::History& history, int64_t max_trials) {
  int64_t rows = 0;
  for (const HistoryTrial& trial : history.trials()) {
    if (rows++ >= max_trials) break;  // Beyond the budget, which trials of users filled, suggestions are never stored.
    if (trial.open() && trial.state != TrialState::kPaused) return true;
  }
  return false;
}

}  // namespace

AshaDesigner::AshaDesigner(const study::StudySpec& spec, const study::AshaOptions& options,
                           const NestedAlgorithms& nested)
    : spec_(spec),
      max_trials_(spec.budget.max_trials),
      options_(options),
      steps_(study::BracketsOf(spec).front().steps),
      sampler_(spec, steps_, nested) {}

absl::StatusOr<Suggestion> AshaDesigner::Suggest(const study::History& history, uint64_t, const base::StopToken& stop) {
  const bool pauses = options_.variant == study::AshaVariant::kPromote;
  for (size_t k = steps_.size() - 1; pauses && k-- > 0;) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> promotion,
                             Promotion(spec_, history, steps_[k], steps_[k + 1], options_.eta, stop));
    if (!promotion) continue;
    promotion->details["rung"] = static_cast<double>(k + 1);
    return *std::move(promotion);
  }
  if (static_cast<int64_t>(history.trials().size()) < max_trials_) {
    absl::StatusOr<Suggestion> suggestion = sampler_.Suggest(history, stop);
    if (suggestion.ok()) {
      suggestion->resource = pauses ? steps_.front() : steps_.back();
      suggestion->details["rung"] = 0.0;
    }
    if (suggestion.ok() || base::GetReason(suggestion.status()) != base::reason::kSpaceExhausted) return suggestion;
  }
  if (pauses && MayStillPromote(history, max_trials_)) {
    return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kAwaitingResults,
                           "no trial may go on until more results are there");
  }
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                         "all settings have been tried, and the best of each rung have gone on");
}

}  // namespace luthier::search
