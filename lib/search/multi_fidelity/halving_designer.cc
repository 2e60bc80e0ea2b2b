#include "lib/search/multi_fidelity/halving_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/rung_order.h"

namespace luthier::search {
namespace {

using study::HistoryTrial;
using study::TrialState;

// Returns the trials of all asks for settings that count against the budget, in order of ask. Suggestions beyond the
// budget, which trials of users filled, are left out: they are never stored.
std::vector<const HistoryTrial*> AskedFor(const study::History& history, int64_t max_trials) {
  std::vector<const HistoryTrial*> asked;
  int64_t rows = 0;
  for (const HistoryTrial& trial : history.trials()) {
    if (rows++ >= max_trials) break;  // Suggestions that are not stored come last.
    if (trial.ask_index) asked.push_back(&trial);
  }
  std::sort(asked.begin(), asked.end(),
            [](const HistoryTrial* a, const HistoryTrial* b) { return *a->ask_index < *b->ask_index; });
  return asked;
}

}  // namespace

HalvingDesigner::HalvingDesigner(const study::StudySpec& spec, int32_t eta, const NestedAlgorithms& nested)
    : spec_(spec),
      max_trials_(spec.budget.max_trials),
      eta_(eta),
      brackets_(study::BracketsOf(spec)),
      sampler_(spec, brackets_.front().steps, nested) {}

HalvingDesigner::HalvingDesigner(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options,
                                 const NestedAlgorithms& nested)
    : HalvingDesigner(spec, options.eta, nested) {}

HalvingDesigner::HalvingDesigner(const study::StudySpec& spec, const study::HyperbandOptions& options,
                                 const NestedAlgorithms& nested)
    : HalvingDesigner(spec, options.eta, nested) {}

absl::StatusOr<std::optional<HalvingDesigner::Rung>> HalvingDesigner::Rank(const Members& members, int64_t step,
                                                                           const base::StopToken& stop) const {
  std::vector<study::RungResult> results;
  for (const HistoryTrial* trial : members) {
    std::optional<study::RungResult> result = study::ResultAt(spec_, *trial, step);
    if (!result && trial->open()) return std::nullopt;
    if (!result) result = study::RungResult{.loss = std::numeric_limits<double>::infinity()};
    result->tie = static_cast<int64_t>(*trial->ask_index);
    results.push_back(*std::move(result));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<size_t> order, study::RungOrder(spec_, results, results.size(), stop));
  Rung rung;
  for (const size_t place : order) rung.push_back({results[place].loss, members[place]});
  return std::optional<Rung>(std::move(rung));
}

absl::StatusOr<HalvingDesigner::Progress> HalvingDesigner::Look(const study::Bracket& bracket, int64_t index,
                                                                const Members& members,
                                                                const base::StopToken& stop) const {
  Progress progress;
  Members rung = members;
  int64_t keep = static_cast<int64_t>(members.size());
  for (size_t i = 0; i + 1 < bracket.steps.size() && !rung.empty(); ++i) {
    keep = std::max<int64_t>(1, keep / eta_);
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<Rung> ranked, Rank(rung, bracket.steps[i], stop));
    if (!ranked) {
      progress.waiting = true;
      return progress;
    }
    const Rung& arrived = *ranked;
    int64_t places = keep;
    for (const Arrived& one : arrived) places -= one.trial->resource > bracket.steps[i] ? 1 : 0;
    const auto completed = [&](size_t rank) {
      return arrived[rank].trial->state == TrialState::kComplete && arrived[rank].trial->resource <= bracket.steps[i] &&
             static_cast<int64_t>(rank) < keep;
    };
    for (size_t rank = 0; rank < arrived.size(); ++rank) places -= completed(rank) ? 1 : 0;

    rung.clear();
    bool pausing = false;
    for (size_t rank = 0; rank < arrived.size() && std::isfinite(arrived[rank].loss); ++rank) {
      const HistoryTrial* trial = arrived[rank].trial;
      if (trial->resource > bracket.steps[i] || completed(rank)) {
        rung.push_back(trial);
      } else if (places > 0 && trial->state == TrialState::kPaused) {
        Suggestion& promotion = progress.promotion.emplace();
        promotion.resume = trial->number;
        promotion.resource = bracket.steps[i + 1];
        promotion.origin = "promote";
        promotion.details = {{"bracket", static_cast<double>(index)},
                             {"rung", static_cast<double>(i + 1)},
                             {"rank", static_cast<double>(rank + 1)},
                             {"loss", arrived[rank].loss}};
        return progress;
      } else if (places > 0 && trial->open()) {
        pausing = true;  // Its result is there; its place is kept until it has paused.
        --places;
      }
    }
    if (pausing) {
      progress.waiting = true;
      return progress;
    }
  }
  return progress;
}

absl::StatusOr<HalvingDesigner::Step> HalvingDesigner::Next(const Members& members, bool full,
                                                            const base::StopToken& stop) const {
  Step step;
  size_t begin = 0;
  for (int64_t b = 0;; ++b) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const study::Bracket& bracket = brackets_[static_cast<size_t>(b) % brackets_.size()];
    const size_t count = std::min(static_cast<size_t>(bracket.sizes.front()), members.size() - begin);
    const bool filled = static_cast<int64_t>(count) == bracket.sizes.front();
    if (!filled && !full) {
      step.bracket = b;
      step.resource = bracket.steps.front();
      return step;
    }
    if (count == 0) return step;
    const auto first = members.begin() + static_cast<std::ptrdiff_t>(begin);
    LUTHIER_ASSIGN_OR_RETURN(Progress progress,
                             Look(bracket, b, Members(first, first + static_cast<std::ptrdiff_t>(count)), stop));
    if (progress.promotion) {
      step.promotion = std::move(progress.promotion);
      return step;
    }
    step.waiting = step.waiting || progress.waiting;
    begin += count;
  }
}

absl::StatusOr<Suggestion> HalvingDesigner::Suggest(const study::History& history, uint64_t,
                                                    const base::StopToken& stop) {
  const Members members = AskedFor(history, max_trials_);
  LUTHIER_ASSIGN_OR_RETURN(Step step,
                           Next(members, static_cast<int64_t>(history.trials().size()) >= max_trials_, stop));
  if (step.promotion) return *std::move(step.promotion);
  if (step.resource > 0) {
    absl::StatusOr<Suggestion> suggestion = sampler_.Suggest(history, stop);
    if (suggestion.ok()) {
      suggestion->resource = step.resource;
      suggestion->details["bracket"] = static_cast<double>(step.bracket);
      suggestion->details["rung"] = 0.0;
      return suggestion;
    }
    if (base::GetReason(suggestion.status()) != base::reason::kSpaceExhausted) return suggestion;
    LUTHIER_ASSIGN_OR_RETURN(step, Next(members, /*full=*/true, stop));
    if (step.promotion) return *std::move(step.promotion);
  }
  if (step.waiting) {
    return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kAwaitingResults,
                           "a rung is not complete yet");
  }
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                         "all settings have been tried, and the best of each rung have gone on");
}

}  // namespace luthier::search
