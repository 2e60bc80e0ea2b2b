#include "server/coordinator/proposer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/study/encoding.h"
#include "lib/suggest/registry.h"
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

}  // namespace

absl::StatusOr<study::History> HistoryAt(storage::Storage* storage, storage::StudyKey study,
                                         const study::MetricSpec& metric, uint64_t prefix_seq) {
  study::History history;
  struct Finished {
    uint64_t seq;
    study::HistoryTrial trial;
    std::string worker;
  };
  std::vector<Finished> finished;
  constexpr int kPage = 1000;
  int64_t after = 0;
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> page,
                             storage->ListTrials(study, {}, after, kPage));
    for (const storage::TrialRecord& record : page) {
      after = record.trial.number;
      if (record.create_seq > prefix_seq) continue;
      study::HistoryTrial trial = ToHistoryTrial(record.trial, metric);
      if (record.finish_seq != 0 && record.finish_seq <= prefix_seq) {
        finished.push_back({record.finish_seq, trial, study::ReporterOf(record.trial)});
      }
      trial.state = study::TrialState::kPending;
      trial.value.reset();
      trial.step = 0;
      trial.gradient.reset();
      trial.failure.reset();
      history.AddStored(std::move(trial));
    }
    if (page.size() < kPage) break;
  }
  std::sort(finished.begin(), finished.end(), [](const Finished& a, const Finished& b) { return a.seq < b.seq; });
  for (auto& [seq, trial, worker] : finished) {
    history.Finish(trial.number, trial.state, trial.value, std::move(trial.gradient), trial.failure, worker,
                   trial.step);
  }
  return history;
}

absl::StatusOr<std::optional<suggest::Suggestion>> SuggestOne(suggest::Designer* designer, const study::StudySpec& spec,
                                                              const study::History& history, uint64_t ask_index) {
  absl::StatusOr<suggest::Suggestion> suggestion = absl::InternalError("");
  if (spec.reproducible) {
    const std::optional<study::History> view = history.ReproducibleView(spec.budget.max_parallel);
    if (!view) return std::nullopt;
    suggestion = designer->Suggest(*view, ask_index);
  } else {
    suggestion = designer->Suggest(history, ask_index);
  }
  if (base::GetReason(suggestion.status()) == base::reason::kSpaceExhausted) return suggestion.status();
  absl::Status status = suggestion.status();
  if (status.ok()) status = CheckDirection(suggestion->direction, spec.space);
  if (status.ok()) return std::optional<suggest::Suggestion>(*std::move(suggestion));
  base::LogError("designer_failed", {{"algorithm", study::AlgorithmName(spec.algorithm)},
                                     {"ask_index", absl::StrCat(ask_index)},
                                     {"error", std::string(status.message())}});
  suggest::Suggestion fallback;
  base::RandomStream random(spec.seed, "designer_failed", ask_index);
  fallback.parameters = study::Encoding(spec.space).Sample(random);
  fallback.origin = "designer_failed";
  return std::optional<suggest::Suggestion>(std::move(fallback));
}

void Proposer::Update(const HistoryUpdate& update) {
  const auto found = entries_.find(update.study);
  if (found == entries_.end() || Mutated(Mutant::kLiveHistory)) return;
  Entry& entry = found->second;
  if (!entry.uses_history || update.seq <= entry.seq) return;
  entry.seq = update.seq;
  const study::HistoryTrial& trial = update.trial;
  if (update.finished)
    entry.history.Finish(trial.number, trial.state, trial.value, trial.gradient, trial.failure, update.worker,
                         trial.step);
  else
    entry.history.AddStored(trial);
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
      absl::StatusOr<study::History> history = HistoryAt(
          storage_, request.study, spec->metric, Mutated(Mutant::kLiveHistory) ? UINT64_MAX : request.prefix_seq);
      if (!history.ok()) {
        // Nothing suggested: the study asks again at once.
        base::LogError("history_unreadable", {{"error", std::string(history.status().message())}});
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
        SuggestOne(entry.designer.get(), *spec, entry.history, ask_index);
    if (!suggestion.ok()) {
      op.exhausted = true;
      break;
    }
    if (!suggestion->has_value()) {
      op.blocked = true;
      break;
    }
    if (entry.uses_history) entry.history.AddSuggested(ask_index, (*suggestion)->parameters, (*suggestion)->carry);
    op.suggestions.push_back(**std::move(suggestion));
  }
  return op;
}

}  // namespace luthier::coordinator
