// Core: studies as wholes: creation, control, trials that users add, and when a study ends.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/suggest/registry.h"
#include "lib/suggest/rungs.h"
#include "server/coordinator/core.h"

namespace luthier::coordinator {

using base::MakeError;
using base::Quote;
using storage::EventType;
using storage::StudyKey;
using study::TrialState;

absl::StatusOr<Core::StudyState*> Core::FindStudy(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                     absl::StrCat("study ", Quote(id), " does not exist; `luthier study list` shows those that do"));
  }
  return &studies_.at(found->second);
}

void Core::Run(CreateStudyOp op) {
  if (const auto found = by_id_.find(op.id); found != by_id_.end()) {
    const StudyState& s = studies_.at(found->second);
    const std::string field = study::FirstDifference(s.record.spec, op.spec);
    if (field.empty()) return Answer<StudyReply>(op.done, StudyReply{s.record, s.record.update_seq});
    base::ErrorDetail detail;
    detail.reason = base::reason::kStudyExists;
    detail.metadata["field"] = field;
    return Answer<StudyReply>(
        op.done,
        MakeError(absl::StatusCode::kAlreadyExists,
                  absl::StrCat("study ", Quote(op.id), " exists with another specification; they first differ in ",
                               field, "; choose another name, or delete that study"),
                  std::move(detail)));
  }
  if (static_cast<int64_t>(studies_.size()) >= options_.limits.studies) {
    return Answer<StudyReply>(op.done,
                              LimitExceeded("studies", options_.limits.studies,
                                            absl::StrCat("there are ", studies_.size(),
                                                         " studies, the most there may be; delete some that are no "
                                                         "longer needed (`luthier study delete`)")));
  }
  StudyState s;
  s.record.key = ++last_key_;
  s.record.id = op.id;
  s.record.spec = std::move(op.spec);
  s.record.create_time = wall_;
  s.spec = std::make_shared<const study::StudySpec>(s.record.spec);
  s.gradient = suggest::GradientUseOf(*s.spec);
  s.stopper = options_.stoppers(s.record.spec);
  const StudyKey key = s.record.key;
  by_id_[op.id] = key;
  StudyState& stored = studies_[key] = std::move(s);
  storage::Event& event = AddEvent(stored, EventType::kStudyCreated);
  event.actor = op.actor;
  event.detail = study::AlgorithmName(stored.spec->algorithm);
  stored.record.create_seq = seq_;
  Answer<StudyReply>(op.done, StudyReply{stored.record, seq_});
}

void Core::Run(ControlOp op) {
  const std::string digest = DigestOf(op);
  const absl::StatusOr<std::optional<std::string>> replayed = Replayed(op.request_id, digest);
  if (!replayed.ok()) return Answer<StudyReply>(op.done, replayed.status());
  const absl::StatusOr<StudyState*> found = FindStudy(op.id);
  if (replayed->has_value() && (found.ok() || op.control == Control::kDelete)) {
    StudyReply reply;
    if (found.ok()) reply.record = (*found)->record;
    if (!absl::SimpleAtoi(**replayed, &reply.seq)) reply.seq = reply.record.update_seq;
    return Answer<StudyReply>(op.done, std::move(reply));
  }
  if (!found.ok()) return Answer<StudyReply>(op.done, found.status());
  StudyState& s = **found;
  const study::StudyState state = s.record.state;
  const auto finished_error = [&] {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
        absl::StrCat("study ", Quote(op.id), " is ", study::StudyStateName(state), "; that can't be undone"));
  };
  switch (op.control) {
    case Control::kPause:
      if (study::IsFinished(state)) return Answer<StudyReply>(op.done, finished_error());
      if (state == study::StudyState::kActive) {
        s.record.state = study::StudyState::kPaused;
        s.record.state_reason = "paused by a user";
        AddEvent(s, EventType::kStudyPaused).actor = op.actor;
      }
      break;
    case Control::kResume:
      if (study::IsFinished(state)) return Answer<StudyReply>(op.done, finished_error());
      if (state == study::StudyState::kPaused) {
        s.record.state = study::StudyState::kActive;
        s.record.state_reason.clear();
        AddEvent(s, EventType::kStudyResumed).actor = op.actor;
        s.record.resume_seq = seq_;
        s.failures_in_row = 0;
      }
      break;
    case Control::kStop:
      if (state == study::StudyState::kStopped) break;
      if (study::IsFinished(state)) return Answer<StudyReply>(op.done, finished_error());
      FinishStudy(s, study::StudyState::kStopped, "stopped by a user", op.actor, /*cancel_running=*/false);
      break;
    case Control::kCancel:
      if (state == study::StudyState::kCancelled) break;
      if (state == study::StudyState::kCompleted) return Answer<StudyReply>(op.done, finished_error());
      FinishStudy(s, study::StudyState::kCancelled, "cancelled by a user", op.actor, /*cancel_running=*/true);
      break;
    case Control::kDelete: {
      if (!s.running.empty()) {
        return Answer<StudyReply>(op.done,
                                  MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialsRunning,
                                            absl::StrCat("study ", Quote(op.id), " has ", s.running.size(),
                                                         " running trials; cancel the study first")));
      }
      AddEvent(s, EventType::kStudyDeleted).actor = op.actor;
      const StudyReply reply{s.record, seq_};
      Remember(op.request_id, digest, absl::StrCat(seq_));
      const StudyKey key = s.record.key;
      deleted_.insert(key);
      by_id_.erase(op.id);
      studies_.erase(key);
      leases_->DropStudy(key);
      return Answer<StudyReply>(op.done, reply);
    }
  }
  Remember(op.request_id, digest, absl::StrCat(s.record.update_seq));
  Answer<StudyReply>(op.done, StudyReply{s.record, s.record.update_seq});
}

void Core::FinishStudy(StudyState& s, study::StudyState state, const std::string& reason, const std::string& actor,
                       bool cancel_running) {
  s.record.state = state;
  s.record.state_reason = reason;
  const EventType type = state == study::StudyState::kStopped     ? EventType::kStudyStopped
                         : state == study::StudyState::kCancelled ? EventType::kStudyCancelled
                                                                  : EventType::kStudyCompleted;
  storage::Event& event = AddEvent(s, type);
  event.actor = actor;
  event.detail = reason;
  s.ready.clear();
  ++s.generation;
  s.computing = false;
  std::vector<int64_t> open(s.retries.begin(), s.retries.end());
  open.insert(open.end(), s.enqueued.begin(), s.enqueued.end());
  // A trial whose holder vanished will not be granted again.
  if (!cancel_running)
    std::copy_if(s.expired.begin(), s.expired.end(), std::back_inserter(open), [&](int64_t number) {
      return leases_->Expired(s.trials[number - 1].record->grants.back().token, now_);
    });
  else
    open.insert(open.end(), s.running.begin(), s.running.end());
  std::sort(open.begin(), open.end());
  for (const int64_t number : open) CancelTrial(s, s.trials[number - 1], absl::StrCat("study ", reason));
  for (const int64_t number : std::set<int64_t>(s.paused)) PrunePaused(s, s.trials[number - 1]);
}

bool Core::AnyOpenBesidesPaused(const StudyState& s) {
  return !s.running.empty() || !s.retries.empty() || !s.enqueued.empty();
}

void Core::CompleteWhenDone(StudyState& s) {
  if (study::IsFinished(s.record.state)) return;
  if (AnyOpenBesidesPaused(s)) return;
  // One of them may yet be continued: the designer says when it has nothing more to ask for.
  if (!s.paused.empty() && !s.exhausted) return;
  if (static_cast<int64_t>(s.trials.size()) >= s.spec->budget.max_trials) {
    FinishStudy(s, study::StudyState::kCompleted, "max_trials reached", "", false);
  } else if (s.exhausted && s.ready.empty()) {
    FinishStudy(s, study::StudyState::kCompleted, "every setting has been tried", "", false);
  }
}

void Core::CountFinished(StudyState& s, const study::Trial& trial, uint64_t finish_seq) {
  if (trial.state == TrialState::kCancelled) return;
  if (trial.state == TrialState::kFailed) {
    if (finish_seq > s.record.resume_seq) ++s.failures_in_row;
  } else {
    s.failures_in_row = 0;
  }
  ++s.finished_since_best;
  if (trial.state != TrialState::kComplete) return;
  if (study::WarmStarts(*s.spec)) s.models.emplace_back(trial.number, trial.parameters);
  const double score = study::Score(s.spec->metric.goal, trial.final_measurement->metrics.at(s.spec->metric.name));
  if (!s.best_score || score > *s.best_score) {
    s.best_score = score;
    s.finished_since_best = 0;
  }
}

void Core::ApplyStoppingRules(StudyState& s, const study::Trial& finished) {
  if (study::IsFinished(s.record.state)) return;
  const study::Budget& budget = s.spec->budget;
  std::string reason;
  if (budget.target_value && s.best_score && *s.best_score >= study::Score(s.spec->metric.goal, *budget.target_value)) {
    reason = absl::StrCat("target_value reached by trial ", finished.number);
  } else if (budget.max_failed_trials > 0 &&
             s.counts[static_cast<size_t>(TrialState::kFailed)] >= budget.max_failed_trials) {
    reason = "max_failed_trials reached";
  } else if (budget.patience > 0 && s.best_score && s.finished_since_best >= budget.patience) {
    reason = absl::StrCat("no better value in ", s.finished_since_best, " trials");
  }
  if (!reason.empty()) {
    FinishStudy(s, study::StudyState::kCompleted, reason, "", /*cancel_running=*/true);
    return;
  }
  CompleteWhenDone(s);
  if (s.record.state == study::StudyState::kActive && s.failures_in_row >= options_.failures_to_pause) {
    s.record.state = study::StudyState::kPaused;
    s.record.state_reason = absl::StrCat(
        s.failures_in_row, " trials failed in a row; the last: ", finished.failure ? finished.failure->reason : "",
        "; mend the cause, then resume");
    AddEvent(s, EventType::kStudyPaused).detail = s.record.state_reason;
  }
}

void Core::Run(EnqueueOp op) {
  const std::string digest = DigestOf(op);
  const absl::StatusOr<std::optional<std::string>> replayed = Replayed(op.request_id, digest);
  if (!replayed.ok()) return Answer<EnqueueReply>(op.done, replayed.status());
  const absl::StatusOr<StudyState*> found = FindStudy(op.id);
  if (!found.ok()) return Answer<EnqueueReply>(op.done, found.status());
  StudyState& s = **found;
  if (replayed->has_value()) {
    EnqueueReply reply;
    const std::vector<std::string> parts = absl::StrSplit(**replayed, ',');
    if (parts[0] != absl::StrCat(s.record.key)) {  // Another study of this name; the trials went with the old one.
      return Answer<EnqueueReply>(op.done, MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                                                     "the study that took these trials was deleted"));
    }
    for (size_t i = 1; i < parts.size(); ++i) {
      int64_t number = 0;
      LUTHIER_CHECK(absl::SimpleAtoi(parts[i], &number));
      const absl::StatusOr<TrialSlot*> slot = FindTrial(s, number);
      if (!slot.ok()) return Answer<EnqueueReply>(op.done, slot.status());
      reply.trials.push_back((*slot)->record->trial);
    }
    reply.seq = s.record.update_seq;
    return Answer<EnqueueReply>(op.done, std::move(reply));
  }
  if (study::IsFinished(s.record.state)) {
    return Answer<EnqueueReply>(
        op.done, MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
                           absl::StrCat("study ", Quote(op.id), " is ", study::StudyStateName(s.record.state),
                                        "; it takes no more trials")));
  }
  base::Violations violations;
  std::vector<study::Parameters> settings;
  for (size_t i = 0; i < op.trials.size(); ++i) {
    absl::StatusOr<study::Parameters> setting = s.spec->space.Complete(op.trials[i].parameters);
    if (!setting.ok())
      violations.AddAll(absl::StrCat("trials[", i, "].parameters"), setting.status());
    else
      settings.push_back(*std::move(setting));
  }
  if (op.trials.empty()) violations.Add("trials", "is empty; give at least one");
  if (!violations.empty()) return Answer<EnqueueReply>(op.done, violations.ToStatus());
  const int64_t room = s.spec->budget.max_trials - static_cast<int64_t>(s.trials.size());
  if (static_cast<int64_t>(op.trials.size()) > room) {
    return Answer<EnqueueReply>(
        op.done,
        LimitExceeded("max_trials", s.spec->budget.max_trials,
                      absl::StrCat("the budget of study ", Quote(op.id), " has room for ", room, " more trials, not ",
                                   op.trials.size(), "; add fewer, or make a study with a larger max_trials")));
  }
  EnqueueReply reply;
  std::string stored = absl::StrCat(s.record.key);
  for (size_t i = 0; i < settings.size(); ++i) {
    study::Trial trial;
    trial.parameters = std::move(settings[i]);
    trial.attributes = std::move(op.trials[i].attributes);
    trial.provenance.designer = "user";
    trial.provenance.origin = "enqueued";
    trial.provenance.resource = suggest::FirstTarget(*s.spec);
    const int64_t number = StoreTrial(s, std::move(trial), EventType::kTrialEnqueued);
    events_.back().actor = op.actor;
    s.enqueued.insert(number);
    reply.trials.push_back(s.trials[number - 1].record->trial);
    absl::StrAppend(&stored, ",", number);
  }
  // Suggestions computed for room that these trials took are not worthless: they stay for later room. But where trials
  // are trained in parts there may be none, while others wait behind them.
  if (s.spec->resource) DropReady(s);
  Remember(op.request_id, digest, std::move(stored));
  reply.seq = seq_;
  Answer<EnqueueReply>(op.done, std::move(reply));
}

}  // namespace luthier::coordinator
