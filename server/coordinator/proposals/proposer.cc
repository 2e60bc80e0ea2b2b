#include "server/coordinator/proposals/proposer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/study/encoding.h"
#include "lib/suggest/registry.h"
#include "lib/suggest/rungs.h"
#include "server/coordinator/mutants.h"

namespace luthier::coordinator {
namespace {

// What workers are asked for must be something they can answer.
absl::Status CheckDirection(const std::vector<double>& direction, const study::SearchSpace& space) {
  if (direction.empty()) return absl::OkStatus();
  study::Gradient answer;
  answer.direction = direction;
  return study::ValidateGradient(answer, static_cast<int>(space.differentiable().size()));
}

// Only a PAUSED trial can be continued, and only beyond where it is.
absl::Status CheckTarget(const suggest::Suggestion& suggestion, const study::StudySpec& spec,
                         const study::History& history) {
  const int64_t most = spec.resource ? spec.resource->max : 0;
  if (suggestion.resource < 0 || suggestion.resource > most) {
    return absl::InternalError(absl::StrCat("target ", suggestion.resource, " is not within 0 … ", most));
  }
  if (!suggestion.resume) return absl::OkStatus();
  const int64_t number = *suggestion.resume;
  const auto& trials = history.trials();
  const study::HistoryTrial* trial = nullptr;
  if (number >= 1 && number <= static_cast<int64_t>(trials.size())) trial = &trials[static_cast<size_t>(number - 1)];
  if (trial == nullptr || trial->number != number || trial->state != study::TrialState::kPaused) {
    return absl::InternalError(absl::StrCat("trial ", number, " is to be continued, but is not PAUSED"));
  }
  if (suggestion.resource > trial->resource) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("trial ", number, " is to be continued to step ", suggestion.resource,
                                          ", but is at ", trial->resource));
}

}  // namespace

absl::StatusOr<std::optional<suggest::Suggestion>> SuggestOne(suggest::Designer* designer, const study::StudySpec& spec,
                                                              const study::History& history, uint64_t ask_index,
                                                              const base::StopToken& stop) {
  absl::StatusOr<suggest::Suggestion> suggestion = absl::InternalError("");
  if (spec.reproducible) {
    const std::optional<study::History> view = history.ReproducibleView(spec.budget.max_parallel);
    if (!view) return std::nullopt;
    suggestion = designer->Suggest(*view, ask_index, stop);
  } else {
    suggestion = designer->Suggest(history, ask_index, stop);
  }
  if (absl::IsCancelled(suggestion.status())) return suggestion.status();
  if (base::GetReason(suggestion.status()) == base::reason::kSpaceExhausted) return suggestion.status();
  if (base::GetReason(suggestion.status()) == base::reason::kAwaitingResults) return std::nullopt;
  const bool full = static_cast<int64_t>(history.trials().size()) >= spec.budget.max_trials;
  absl::Status status = suggestion.status();
  if (status.ok()) status = CheckDirection(suggestion->direction, spec.space);
  if (status.ok()) status = CheckTarget(*suggestion, spec, history);
  // It was asked for what a PAUSED trial may become, and has no answer.
  if (spec.resource && full && (!status.ok() || !suggestion->resume)) {
    return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                           "the budget has no room for another trial");
  }
  if (status.ok()) return std::optional<suggest::Suggestion>(*std::move(suggestion));
  base::LogError("designer_failed", {{"algorithm", study::AlgorithmName(spec.algorithm)},
                                     {"ask_index", absl::StrCat(ask_index)},
                                     {"error", std::string(status.message())}});
  suggest::Suggestion fallback;
  base::RandomStream random(spec.seed, "designer_failed", ask_index);
  fallback.parameters = study::Encoding(spec.space).Sample(random);
  fallback.origin = "designer_failed";
  fallback.resource = suggest::FirstTarget(spec);
  return std::optional<suggest::Suggestion>(std::move(fallback));
}

void Note(const suggest::Suggestion& suggestion, uint64_t ask_index, study::History* history) {
  if (suggestion.resume)
    history->AddSuggestedResume(ask_index, *suggestion.resume, suggestion.resource);
  else
    history->AddSuggested(ask_index, suggestion.parameters, suggestion.carry, suggestion.resource);
}

void Proposer::Update(const HistoryUpdate& update) {
  const auto found = entries_.find(update.study);
  if (found == entries_.end() || Mutated(Mutant::kLiveHistory)) return;
  Entry& entry = found->second;
  if (!entry.uses_history || update.seq <= entry.seq) return;
  entry.seq = update.seq;
  Apply(update, &entry.history);
}

void Proposer::Forget(storage::StudyKey study) {
  entries_.erase(study);
}

ProposalsOp Proposer::Propose(const ProposalRequest& request, const std::shared_ptr<const study::StudySpec>& spec) {
  ProposalsOp op;
  op.study = request.study;
  op.generation = request.generation;
  op.first_ask_index = request.first_ask_index;
  op.prefix_seq = request.prefix_seq;
  auto found = entries_.find(request.study);
  if (found == entries_.end() || Mutated(Mutant::kLiveHistory)) {
    Entry entry;
    entry.designer = create_(*spec);
    entry.uses_history = suggest::InfoOf(spec->algorithm).uses_history || spec->reproducible;
    if (entry.uses_history) {
      absl::StatusOr<study::History> history =
          HistoryAt(storage_, request.study, *spec, Mutated(Mutant::kLiveHistory) ? UINT64_MAX : request.prefix_seq);
      if (!history.ok()) {
        // Nothing suggested: the study, unless it is gone or damaged, asks again at once.
        if (!absl::IsNotFound(history.status()))
          base::LogError("history_unreadable", {{"error", std::string(history.status().message())}});
        if (absl::IsDataLoss(history.status())) op.history = history.status();
        return op;
      }
      entry.history = *std::move(history);
      entry.seq = request.prefix_seq;
    }
    found = entries_.insert_or_assign(request.study, std::move(entry)).first;
  }
  Entry& entry = found->second;
  for (int i = 0; i < request.count; ++i) {
    const uint64_t ask_index = request.first_ask_index + static_cast<uint64_t>(i);
    absl::StatusOr<std::optional<suggest::Suggestion>> suggestion =
        SuggestOne(entry.designer.get(), *spec, entry.history, ask_index, base::StopToken());
    if (!suggestion.ok()) {
      op.exhausted = true;
      break;
    }
    if (!suggestion->has_value()) {
      op.blocked = true;
      break;
    }
    if (entry.uses_history) Note(**suggestion, ask_index, &entry.history);
    op.suggestions.push_back(**std::move(suggestion));
  }
  return op;
}

}  // namespace luthier::coordinator
