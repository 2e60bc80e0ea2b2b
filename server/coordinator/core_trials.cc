// Core: what happens to single trials.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/core.h"
#include "server/coordinator/messages/measurements.h"
#include "server/coordinator/mutants.h"

namespace luthier::coordinator {
namespace {

using base::MakeError;
using base::Quote;
using storage::EventType;
using storage::GrantRecord;
using storage::TrialRecord;
using study::TrialState;

constexpr size_t kMaxText = 4096;
constexpr size_t kMaxEventText = 256;
constexpr int kMaxReleases = 20;

// The end of `text`, cut at a character boundary.
std::string Tail(std::string text) {
  if (text.size() <= kMaxText) return text;
  size_t begin = text.size() - kMaxText;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  return text.substr(begin);
}

// The beginning of `text`, cut at a character boundary.
std::string Head(std::string text, size_t size = kMaxText) {
  if (text.size() <= size) return text;
  size_t end = size;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

absl::Status AlreadyFinal(const study::Trial& trial) {
  return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialFinal,
                   absl::StrCat("trial ", trial.number, " is ", study::TrialStateName(trial.state), " already"));
}

void CheckPause(const study::Trial& trial, const CompleteContent& content, base::Violations* violations) {
  const int64_t target = trial.target();
  if (content.pruned) violations->Add("paused", "a trial is either paused or pruned");
  if (target == 0) {
    violations->Add("paused", "this trial has no target to pause at; complete it");
  } else if (content.measurement.step < target) {
    violations->Add("measurement.step", absl::StrCat(content.measurement.step, " is below the trial's target, step ",
                                                     target, "; pause there, or release the trial with a checkpoint"));
  }
}

// A warning about a trial that completes without having said on its way how far it is, where that would have been used;
// "": none. `reports`: points of the newest attempt's curve.
std::string MissedTarget(const study::Trial& trial, const study::StudySpec& spec, size_t reports) {
  constexpr char kSilent[] = ": the objective has to report `step`";
  const int64_t last = trial.attempts.back().last_step;
  if (reports == 0 && last == 0 && spec.resource) {
    const bool earlier = std::any_of(trial.attempts.begin(), trial.attempts.end(),
                                     [](const study::Attempt& attempt) { return attempt.last_step > 0; });
    return absl::StrCat(earlier ? "this attempt reported no step of the training, as an earlier one did"
                                : "no step of the training was ever reported",
                        ", so it could not be paused or stopped", kSilent);
  }
  if (reports == 0 && spec.stopping) {
    return absl::StrCat("nothing was reported on the way, so no stopping rule could look at it", kSilent);
  }
  const bool to_pause = spec.resource && trial.target() > 0 && trial.target() < spec.resource->max;
  if (!to_pause || last <= trial.target()) return "";
  return absl::StrCat("it was to pause at step ", trial.target(), " and trained on to step ", last);
}

}  // namespace

absl::StatusOr<Core::TrialSlot*> Core::FindTrial(StudyState& s, int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(s.trials.size())) {
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                     absl::StrCat("trial ", number, " of study ", Quote(s.record.id), " does not exist; it has ",
                                  s.trials.size(), " trials"));
  }
  TrialSlot& slot = s.trials[number - 1];
  if (!slot.record) {
    LUTHIER_ASSIGN_OR_RETURN(TrialRecord record, storage_->GetTrial(s.record.key, number));
    slot.record = std::make_unique<TrialRecord>(std::move(record));
    pinned_.emplace(s.record.key, number);
  }
  return &slot;
}

absl::StatusOr<Core::Found> Core::FindTrial(const std::string& id, int64_t number) {
  LUTHIER_ASSIGN_OR_RETURN(StudyState* const s, FindStudy(id));
  LUTHIER_ASSIGN_OR_RETURN(TrialSlot* const slot, FindTrial(*s, number));
  return Found{s, slot};
}

absl::Status Core::CheckHolder(const TrialSlot& slot, const std::string& token) const {
  const TrialRecord& record = *slot.record;
  if (study::IsFinal(slot.state)) return AlreadyFinal(record.trial);
  if (slot.state == TrialState::kRunning) {
    if (record.grants.back().token == token) return absl::OkStatus();
    const auto had_it = [&](const GrantRecord& grant) { return grant.token == token; };
    if (Mutated(Mutant::kFenceNotCompared) && std::any_of(record.grants.begin(), record.grants.end(), had_it)) {
      return absl::OkStatus();
    }
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, base::reason::kLeaseLost,
      absl::StrCat("trial ", record.trial.number, " is no longer leased by this token; drop it and ask for another"));
}

void Core::Move(StudyState& s, TrialSlot& slot, study::TrialEvent event) {
  const std::optional<TrialState> next = study::Next(slot.state, event);
  LUTHIER_CHECK(next.has_value());
  --s.counts[static_cast<size_t>(slot.state)];
  ++s.counts[static_cast<size_t>(*next)];
  slot.state = *next;
  slot.record->trial.state = *next;
  const int64_t number = slot.record->trial.number;
  ClearExpired(s, number);
  if (s.running.erase(number) > 0) AddHeld(slot.record->trial.attempts.back().worker, -1);
  s.retries.erase(number);
  s.enqueued.erase(number);
  s.paused.erase(number);
  if (*next == TrialState::kPaused) s.paused.insert(number);
  if (*next == TrialState::kRunning) s.running.insert(number);
  if (*next == TrialState::kPending) s.retries.insert(number);
}

void Core::Finalize(StudyState& s, TrialSlot& slot) {
  TrialRecord& record = *slot.record;
  record.trial.end_time = wall_;
  record.finish_seq = seq_;
  MarkDirty(s, record);
  PushUpdate(s, HistoryUpdate::Kind::kFinished, record.trial.number, [&](HistoryUpdate& update) {
    update.trial = ToHistoryTrial(record.trial, s.spec->metric);
    update.worker = study::ReporterOf(record.trial);
  });
  if (s.stopper) {
    const study::HistoryTrial& trial = updates_.back().trial;
    s.stopper->Finish(trial.number, trial.state, trial.value);
  }
  s.blocked = false;
  s.unblocked = seq_;
  CountFinished(s, record.trial, record.finish_seq);
}

std::vector<int64_t> Core::NewlySetAside(StudyState& s, const std::vector<int64_t>& numbers) {
  std::vector<int64_t> fresh;
  for (const int64_t number : numbers) {
    if (s.set_aside.count(number) > 0) continue;
    const absl::StatusOr<TrialSlot*> slot = FindTrial(s, number);
    // Only what has a gradient can lose it. (A row that can't be read now is noted with a later suggestion.)
    if (!slot.ok() || !study::IsFinal((*slot)->state)) continue;
    const study::Trial& trial = (*slot)->record->trial;
    if (trial.final_measurement && trial.final_measurement->gradient) fresh.push_back(number);
  }
  return fresh;
}

void Core::NoteSetAside(StudyState& s, const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) {
    s.set_aside.insert(number);
    const TrialRecord* const record = s.trials[number - 1].record.get();  // Loaded by NewlySetAside.
    storage::Event& event = AddEvent(s, EventType::kGradientSetAside, record);
    event.actor = study::ReporterOf(record->trial);
    event.detail = "the gradients of this worker contradict the losses it reported; the losses are kept";
  }
}

void Core::EndAttempt(TrialRecord& record, study::AttemptOutcome outcome) {
  study::Attempt& attempt = record.trial.attempts.back();
  attempt.outcome = outcome;
  attempt.end = wall_;
}

void Core::CancelTrial(StudyState& s, TrialSlot& slot, const std::string& why) {
  TrialRecord& record = *slot.record;
  if (slot.state == TrialState::kRunning) {
    EndAttempt(record, study::AttemptOutcome::kCancelled);
    EndLease(record.grants.back().token, Directive::kStop);
  } else if (slot.state == TrialState::kPaused) {
    DropReady(s);  // One of the suggestions may be to continue it.
  }
  Move(s, slot, study::TrialEvent::kCancel);
  AddEvent(s, EventType::kTrialCancelled, &record).detail = why;
  Finalize(s, slot);
}

void Core::RetryOrGiveUp(StudyState& s, TrialSlot& slot) {
  TrialRecord& record = *slot.record;
  slot.curve.reset();
  slot.eligible_since = now_;
  if (study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts) {
    study::Failure failure;
    failure.kind = study::FailureKind::kConfig;
    failure.reason = study::failure::kAttemptsExhausted;
    failure.message = absl::StrCat("all ", s.spec->lease.max_attempts, " attempts ended without a result:");
    for (const study::Attempt& attempt : record.trial.attempts) {
      absl::StrAppend(&failure.message, "\n", attempt.number, ". worker ", attempt.worker, ": ",
                      study::AttemptOutcomeName(attempt.outcome));
      if (attempt.failure)
        absl::StrAppend(&failure.message, " ", attempt.failure->reason, " ", attempt.failure->message);
    }
    failure.message = Head(std::move(failure.message));
    record.trial.failure = failure;
    Move(s, slot, study::TrialEvent::kFail);
    AddEvent(s, EventType::kTrialFailed, &record).detail = failure.reason;
    Finalize(s, slot);
    ApplyStoppingRules(s, record.trial);
    return;
  }
  Move(s, slot, study::TrialEvent::kRetry);
  MarkDirty(s, record);
  if (study::IsFinished(s.record.state)) CancelTrial(s, slot, absl::StrCat("study ", s.record.state_reason));
}

void Core::Run(CancelTrialOp op) {
  const absl::StatusOr<Found> found = FindTrial(op.id, op.number);
  if (!found.ok()) return Answer<TrialReply>(op.done, found.status());
  StudyState& s = *found->study;
  TrialSlot& slot = *found->slot;
  TrialRecord& record = *slot.record;
  // Cancelling again has no further effect, so it may be repeated.
  if (slot.state == TrialState::kCancelled)
    return Answer<TrialReply>(op.done, TrialReply{record.trial, record.finish_seq});
  if (study::IsFinal(slot.state)) return Answer<TrialReply>(op.done, AlreadyFinal(record.trial));
  CancelTrial(s, slot, "cancelled by a user");
  events_.back().actor = op.actor;
  TrialReply reply{record.trial, seq_};
  CompleteWhenDone(s);
  Answer<TrialReply>(op.done, std::move(reply));
}

void Core::Run(FinishOp op) {
  const absl::StatusOr<Found> found = FindTrial(op.id, op.number);
  if (!found.ok()) return Answer<FinishReply>(op.done, found.status());
  StudyState& s = *found->study;
  TrialSlot& slot = *found->slot;
  TrialRecord& record = *slot.record;

  const std::string digest = DigestOf(op);
  size_t holder = record.grants.size();  // Index of the attempt that the token belongs to.
  for (size_t i = 0; i < record.grants.size(); ++i) {
    if (record.grants[i].token == op.token) holder = i;
  }
  const bool known = holder < record.grants.size();
  if (known && !record.grants[holder].digest.empty()) {
    const GrantRecord& grant = record.grants[holder];
    if (grant.digest != digest) {
      return Answer<FinishReply>(
          op.done,
          MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kConflictingReport,
                    absl::StrCat("attempt ", holder + 1, " of trial ", op.number, " was ended with other content")));
    }
    return Answer<FinishReply>(op.done, FinishReply{grant.reply_state, grant.reply_warnings, grant.reply_seq});
  }
  const auto* complete = std::get_if<CompleteContent>(&op.content);
  if (absl::Status status = CheckHolder(slot, op.token); !status.ok()) {
    if (known && complete != nullptr && CheckMeasurement(complete->measurement, "measurement").ok()) {
      // Kept for people; models never see it.
      storage::Event& event = AddEvent(s, EventType::kReportRefused, &record);
      event.attempt = static_cast<int32_t>(holder + 1);
      event.actor = record.trial.attempts[holder].worker;
      event.detail = MetricsText(complete->measurement);
      const auto value = complete->measurement.metrics.find(s.spec->metric.name);
      if (value != complete->measurement.metrics.end()) event.value = value->second;
    }
    return Answer<FinishReply>(op.done, std::move(status));
  }

  base::Violations violations;
  violations.AddAll("", CheckCheckpoint(op.checkpoint));
  violations.AddAll("", CheckStartStep(op.start_step));
  const std::string& metric = s.spec->metric.name;
  std::optional<double> value;
  if (complete != nullptr) {
    violations.AddAll("", CheckMeasurement(complete->measurement, "measurement"));
    const auto entry = complete->measurement.metrics.find(metric);
    if (entry != complete->measurement.metrics.end())
      value = entry->second;
    else if (!complete->pruned) {
      std::vector<std::string> names;
      for (const auto& [name, v] : complete->measurement.metrics) names.push_back(name);
      violations.Add("measurement.metrics", absl::StrCat("lacks the study's metric ", Quote(metric),
                                                         names.empty() ? "" : "; it has ", absl::StrJoin(names, ", ")));
    }
    if (complete->paused) CheckPause(record.trial, *complete, &violations);
  }
  const auto* failure = std::get_if<study::Failure>(&op.content);
  if (failure != nullptr) {
    const bool good = !failure->reason.empty() && failure->reason.size() <= 64 && failure->reason[0] >= 'A' &&
                      failure->reason[0] <= 'Z' &&
                      failure->reason.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
    if (!good)
      violations.Add("failure.reason",
                     absl::StrCat(Quote(failure->reason), " is not of the form [A-Z][A-Z0-9_]{0,63}"));
  }
  if (!violations.empty()) return Answer<FinishReply>(op.done, violations.ToStatus());
  // At the last target a trial has all that it gets: it is complete.
  const bool pauses =
      complete != nullptr && complete->paused && std::isfinite(*value) && record.trial.target() < s.spec->resource->max;
  const bool curve_counts = pauses || (complete != nullptr && (s.spec->stopping || s.spec->resource));
  if (curve_counts && !slot.curve) {
    if (absl::Status loaded = LoadCurve(s, slot); !loaded.ok()) return Answer<FinishReply>(op.done, std::move(loaded));
  }

  if (complete != nullptr) {
    // Many give no step with their result.
    const int64_t step = complete->measurement.step;
    NoteTraining(s, slot, op.start_step, step > 0 ? step : std::numeric_limits<int64_t>::max(), step);
  }
  study::Attempt& attempt = record.trial.attempts.back();
  attempt.output_tail = Tail(std::move(op.output_tail));
  if (!op.checkpoint.empty()) {
    record.trial.checkpoint = op.checkpoint;
    record.trial.checkpoint_step = attempt.last_step;
  }
  FinishReply reply;
  EndLease(op.token, Directive::kLost);
  const std::string worker = attempt.worker;
  // Whether the trial came to its end by this call, rather than going back to PENDING.
  bool ended = true;

  if (complete != nullptr && value && !std::isfinite(*value)) {
    study::Failure bad;
    bad.reason = study::failure::kNonFinite;
    bad.message = absl::StrCat(metric, " is ", study::FormatDouble(*value));
    record.trial.failure = bad;
    attempt.failure = bad;
    EndAttempt(record, study::AttemptOutcome::kFailed);
    Move(s, slot, study::TrialEvent::kFail);
    storage::Event& event = AddEvent(s, EventType::kTrialFailed, &record);
    event.actor = worker;
    event.detail = absl::StrCat(bad.reason, ": ", bad.message);
    reply.warnings.push_back(absl::StrCat(bad.message, ": the trial counts as FAILED(CONFIG, NON_FINITE)"));
  } else if (pauses) {
    ended = false;
    study::Measurement point = complete->measurement;
    point.gradient.reset();
    // Often the same point was reported before.
    if (slot.curve->digests.count(point.step) == 0) {
      AddPoint(s, slot, point);
      if (s.stopper) s.stopper->Report(op.number, point.step, *value);
    }
    PauseTrial(s, slot, std::move(point), !op.checkpoint.empty());
  } else if (complete != nullptr) {
    study::Measurement measurement = complete->measurement;
    std::string problem = complete->gradient_problem;
    if (measurement.gradient) {
      const absl::Status valid =
          ValidateGradient(*measurement.gradient, static_cast<int>(s.spec->space.differentiable().size()));
      if (!valid.ok()) problem = std::string(valid.message());
    }
    if (!problem.empty()) {
      measurement.gradient.reset();
      reply.warnings.push_back(absl::StrCat("gradient dropped, the loss is kept: ", problem));
      storage::Event& event = AddEvent(s, EventType::kGradientDropped, &record);
      event.actor = worker;
      event.detail = problem;
    }
    record.trial.final_measurement = std::move(measurement);
    EndAttempt(record, complete->pruned ? study::AttemptOutcome::kPruned : study::AttemptOutcome::kComplete);
    Move(s, slot, complete->pruned ? study::TrialEvent::kPrune : study::TrialEvent::kComplete);
    storage::Event& event =
        AddEvent(s, complete->pruned ? EventType::kTrialPruned : EventType::kTrialCompleted, &record);
    event.actor = worker;
    event.detail = MetricsText(complete->measurement);
    const std::string missed =
        complete->pruned ? "" : MissedTarget(record.trial, *s.spec, slot.curve ? slot.curve->digests.size() : 0);
    if (!missed.empty()) {
      absl::StrAppend(&event.detail, "; WARNING: ", missed);
      reply.warnings.push_back(missed);
    }
    event.value = value;
  } else if (failure != nullptr && failure->kind == study::FailureKind::kConfig) {
    study::Failure bad = *failure;
    bad.message = Tail(std::move(bad.message));
    record.trial.failure = bad;
    attempt.failure = bad;
    EndAttempt(record, study::AttemptOutcome::kFailed);
    Move(s, slot, study::TrialEvent::kFail);
    storage::Event& event = AddEvent(s, EventType::kTrialFailed, &record);
    event.actor = worker;
    event.detail = absl::StrCat(bad.reason, bad.message.empty() ? "" : ": ", Head(bad.message, kMaxEventText));
  } else if (failure != nullptr) {
    ended = false;
    attempt.failure = *failure;
    attempt.failure->message = Tail(std::move(attempt.failure->message));
    EndAttempt(record, study::AttemptOutcome::kFailed);
    storage::Event& event = AddEvent(s, EventType::kTrialRetried, &record);
    event.actor = worker;
    event.detail =
        absl::StrCat(failure->reason, failure->message.empty() ? "" : ": ", Head(failure->message, kMaxEventText));
  } else {
    ended = false;
    EndAttempt(record, study::AttemptOutcome::kReleased);
    // Beyond the limit a release counts as an attempt, or a worker that drains for ever would keep the trial for ever.
    if (record.trial.releases < kMaxReleases) ++record.trial.releases;
    AddEvent(s, EventType::kTrialReleased, &record).actor = worker;
  }
  if (ended) {
    Finalize(s, slot);
    ApplyStoppingRules(s, record.trial);
  } else if (!pauses) {
    RetryOrGiveUp(s, slot);
  }
  reply.state = slot.state;
  reply.seq = seq_;
  GrantRecord& grant = record.grants.back();
  if (!Mutated(Mutant::kCompleteNotReplayable) || complete == nullptr) grant.digest = digest;
  grant.reply_state = reply.state;
  grant.reply_warnings = reply.warnings;
  grant.reply_seq = reply.seq;
  if (!ended) CompleteWhenDone(s);
  Answer<FinishReply>(op.done, std::move(reply));
}

void Core::Run(HeartbeatOp op) {
  // An expired lease that nobody else was granted goes back to its holder.
  for (auto& [key, s] : studies_) {
    for (const int64_t number : std::set<int64_t>(s.expired)) {
      const TrialRecord& record = *s.trials[number - 1].record;
      const std::string& token = record.grants.back().token;
      if (std::find(op.tokens.begin(), op.tokens.end(), token) == op.tokens.end()) continue;
      ClearExpired(s, number);
      storage::Event& event = AddEvent(s, EventType::kTrialResumed, &record);
      event.actor = record.trial.attempts.back().worker;
    }
    s.next_expiry_check = std::min(s.next_expiry_check, now_ + s.spec->lease.ttl);
  }
  leases_->Renew(op.tokens, now_, /*take_back=*/true);
  // Leases that this batch ends are live until it commits; the answer is given after that.
  answers_.push_back([this, op = std::move(op), now = now_](const absl::Status& committed) {
    if (!op.done) return;
    if (committed.ok())
      op.done(HeartbeatReply{leases_->Renew(op.tokens, now, /*take_back=*/true).directives});
    else
      op.done(committed);
  });
}

}  // namespace luthier::coordinator
