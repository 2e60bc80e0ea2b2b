#include "server/coordinator/proposals/proposer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/search/registry.h"
#include "lib/study/encoding.h"
#include "lib/study/rung_schedule.h"

namespace luthier::coordinator {
namespace {

// Checks that workers can return a derivative along the direction.
absl::Status CheckDirection(const std::vector<double>& direction, const study::SearchSpace& space) {
  if (direction.empty()) return absl::OkStatus();
  study::Gradient answer;
  answer.direction = direction;
  return study::ValidateGradient(answer, static_cast<int>(space.differentiable().size()));
}

// Checks that a continued trial is PAUSED, and that its target is beyond its step.
absl::Status CheckTarget(const search::Suggestion& suggestion, const study::StudySpec& spec,
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

// Returns a random setting in place of a designer's.
search::Suggestion Sample(const study::StudySpec& spec, uint64_t ask_index, const std::string& origin) {
  search::Suggestion suggestion;
  base::RandomStream random(spec.seed, origin, ask_index);
  suggestion.parameters = study::Encoding(spec.space, spec.constraints).Sample(random);
  suggestion.origin = origin;
  suggestion.resource = study::FirstTarget(spec);
  return suggestion;
}

}  // namespace

bool UsesHistory(const study::StudySpec& spec) {
  return search::UsesHistory(spec) || spec.reproducible || spec.open_space;
}

absl::StatusOr<std::optional<search::Suggestion>> SuggestOne(search::Designer* designer, const study::StudySpec& spec,
                                                             const study::History& history, uint64_t ask_index,
                                                             const base::StopToken& stop) {
  absl::StatusOr<search::Suggestion> suggestion = absl::InternalError("");
  if (spec.space.size() == 0) {
    suggestion = search::Suggestion();  // An open space has no parameter before the first declaration.
    suggestion->origin = "empty_space";
    suggestion->resource = study::FirstTarget(spec);
  } else if (spec.reproducible) {
    const std::optional<study::History> view = history.ReproducibleView(spec.budget.max_parallel);
    if (!view) return std::nullopt;
    suggestion = designer->Suggest(*view, ask_index, stop);
  } else {
    suggestion = designer->Suggest(history, ask_index, stop);
  }
  if (absl::IsCancelled(suggestion.status())) return suggestion.status();
  const bool full = static_cast<int64_t>(history.trials().size()) >= spec.budget.max_trials;
  if (base::GetReason(suggestion.status()) == base::reason::kSpaceExhausted) {
    if (!spec.open_space || full) return suggestion.status();
    return std::optional<search::Suggestion>(Sample(spec, ask_index, "repeat"));
  }
  if (base::GetReason(suggestion.status()) == base::reason::kAnswered) return suggestion.status();
  if (base::GetReason(suggestion.status()) == base::reason::kAwaitingResults) return std::nullopt;
  absl::Status status = suggestion.status();
  if (status.ok()) status = CheckDirection(suggestion->direction, spec.space);
  if (status.ok()) status = CheckTarget(*suggestion, spec, history);
  // With a full budget the designer was asked which PAUSED trial to continue, and names none.
  if (spec.resource && full && (!status.ok() || !suggestion->resume)) {
    return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                           "the budget has no room for another trial");
  }
  if (status.ok()) return std::optional<search::Suggestion>(*std::move(suggestion));
  base::LogError("designer_failed", {{"algorithm", study::AlgorithmName(spec.algorithm)},
                                     {"ask_index", absl::StrCat(ask_index)},
                                     {"error", std::string(status.message())}});
  return std::optional<search::Suggestion>(Sample(spec, ask_index, "designer_failed"));
}

void Note(const search::Suggestion& suggestion, uint64_t ask_index, study::History* history) {
  if (suggestion.resume)
    history->AddSuggestedResume(ask_index, *suggestion.resume, suggestion.resource);
  else
    history->AddSuggested(ask_index, suggestion.parameters, suggestion.designer_state, suggestion.resource);
}

StudyProposer::StudyProposer(storage::Storage* storage, storage::StudyKey study,
                             std::shared_ptr<const study::StudySpec> spec, const DesignerFactory& create)
    : storage_(storage),
      study_(study),
      spec_(std::move(spec)),
      designer_(create(*spec_)),
      uses_history_(UsesHistory(*spec_)),
      read_(!uses_history_) {}

void StudyProposer::Update(const HistoryUpdate& update) {
  if (!uses_history_ || !read_ || update.seq <= seq_) return;
  seq_ = update.seq;
  Apply(update, &history_);
}

absl::Status StudyProposer::ReadHistory(uint64_t prefix_seq) {
  LUTHIER_ASSIGN_OR_RETURN(history_, HistoryAt(storage_, study_, *spec_, prefix_seq));
  seq_ = prefix_seq;
  read_ = true;
  return absl::OkStatus();
}

absl::StatusOr<ProposalsOp> StudyProposer::Propose(const ProposalRequest& request, const base::StopToken& stop) {
  ProposalsOp op;
  op.study = request.study;
  op.generation = request.generation;
  op.first_ask_index = request.first_ask_index;
  op.prefix_seq = request.prefix_seq;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (!read_) {
    if (const absl::Status status = ReadHistory(request.prefix_seq); !status.ok()) {
      // Nothing was suggested. The study asks again at once, unless it is gone or damaged.
      if (!absl::IsNotFound(status)) base::LogError("history_unreadable", {{"error", std::string(status.message())}});
      if (absl::IsDataLoss(status)) op.history = status;
      return op;
    }
  }
  if (spec_->open_space) history_.ExtendGradients(spec_->space.differentiable().size());
  for (int i = 0; i < request.count; ++i) {
    const uint64_t ask_index = request.first_ask_index + static_cast<uint64_t>(i);
    absl::StatusOr<std::optional<search::Suggestion>> suggestion =
        SuggestOne(designer_.get(), *spec_, history_, ask_index, stop);
    if (absl::IsCancelled(suggestion.status())) {
      if (i == 0) return suggestion.status();
      break;  // The earlier ones are in the history already.
    }
    if (!suggestion.ok()) {
      op.exhausted = true;
      if (base::GetReason(suggestion.status()) == base::reason::kAnswered) {
        op.answered = std::string(suggestion.status().message());
      }
      break;
    }
    if (!suggestion->has_value()) {
      op.blocked = true;
      break;
    }
    if (uses_history_) Note(**suggestion, ask_index, &history_);
    op.suggestions.push_back(**std::move(suggestion));
  }
  return op;
}

int64_t StudyProposer::bytes() const {
  constexpr int64_t kStudy = int64_t{64} << 10, kTrial = 256, kParameter = 96;
  const auto trials = static_cast<int64_t>(history_.trials().size());
  return kStudy + trials * (kTrial + kParameter * spec_->space.size());
}

void Proposer::Update(const HistoryUpdate& update) {
  const auto found = studies_.find(update.study);
  if (found != studies_.end()) found->second.Update(update);
}

ProposalsOp Proposer::Propose(const ProposalRequest& request, const std::shared_ptr<const study::StudySpec>& spec) {
  if (studies_.size() >= kMost && studies_.count(request.study) == 0) studies_.clear();
  if (const auto old = studies_.find(request.study); old != studies_.end() && old->second.spec() != spec.get()) {
    studies_.erase(old);
  }
  const auto found = studies_.try_emplace(request.study, storage_, request.study, spec, create_).first;
  return *found->second.Propose(request, base::StopToken());
}

}  // namespace luthier::coordinator
