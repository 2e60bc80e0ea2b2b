#include "server/coordinator/trials/attempts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/trials/ending.h"
#include "server/coordinator/trials/study_end.h"
#include "server/coordinator/trials/text.h"

namespace luthier::coordinator {
namespace {

using storage::EventType;
using storage::TrialRecord;

study::Failure AttemptsExhausted(const study::Trial& trial, int max_attempts) {
  study::Failure failure;
  failure.kind = study::FailureKind::kConfig;
  failure.reason = study::failure::kAttemptsExhausted;
  failure.message = absl::StrCat("all ", max_attempts, " attempts ended without a result:");
  for (const study::Attempt& attempt : trial.attempts) {
    absl::StrAppend(&failure.message, "\n", attempt.number, ". worker ", attempt.worker, ": ",
                    study::AttemptOutcomeName(attempt.outcome));
    if (attempt.failure) {
      absl::StrAppend(&failure.message, " ", attempt.failure->reason, " ", attempt.failure->message);
    }
  }
  failure.message = Head(std::move(failure.message));
  return failure;
}

}  // namespace

void RetryOrGiveUp(Context& c, StudyState& s, TrialSlot& slot) {
  TrialRecord& record = *slot.record;
  slot.curve.reset();
  slot.eligible_since = c.batch.now;
  if (study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts) {
    record.trial.failure = AttemptsExhausted(record.trial, s.spec->lease.max_attempts);
    Move(c.state, s, slot, study::TrialEvent::kFail);
    AddEvent(c, s, EventType::kTrialFailed, &record).detail = record.trial.failure->reason;
    Finalize(c, s, slot);
    ApplyStoppingRules(c, s, record.trial);
    return;
  }
  Move(c.state, s, slot, study::TrialEvent::kRetry);
  MarkDirty(c, s, record);
  if (study::IsFinished(s.record.state)) CancelTrial(c, s, slot, absl::StrCat("study ", s.record.state_reason));
}

void NoteTraining(Context& c, StudyState& s, TrialSlot& slot, std::optional<int64_t> start_step, int64_t first,
                  int64_t last) {
  if (!s.spec->resource) return;
  TrialRecord& record = *slot.record;
  study::Attempt& attempt = record.trial.attempts.back();
  // Until now the attempt counts as going on from the checkpoint that it was given.
  int64_t start = attempt.start_step;
  if (start_step)
    start = std::min(*start_step, first);
  else if (first <= start)
    start = 0;
  const bool restarted = start == 0 && attempt.start_step > 0;
  if (start == attempt.start_step && last <= attempt.last_step) return;
  if (restarted) {
    storage::Event& event = AddEvent(c, s, EventType::kTrialRestarted, &record);
    event.actor = attempt.worker;
    event.detail = absl::StrCat("the checkpoint of step ", attempt.start_step, " was not used; training begins afresh");
  }
  attempt.start_step = start;
  attempt.last_step = std::max(attempt.last_step, last);
  MarkDirty(c, s, record);
}

bool NoteCheckpoint(const std::string& checkpoint, std::optional<int64_t> step, int64_t reported, study::Trial* trial) {
  if (checkpoint.empty()) return false;
  const bool same = checkpoint == trial->checkpoint;
  const int64_t held = step ? *step : same ? trial->checkpoint_step : reported;
  if (same && held == trial->checkpoint_step) return false;
  trial->checkpoint = checkpoint;
  trial->checkpoint_step = held;
  return true;
}

void PauseTrial(Context& c, StudyState& s, TrialSlot& slot, study::Measurement measurement, bool with_checkpoint) {
  TrialRecord& record = *slot.record;
  const study::Attempt& attempt = record.trial.attempts.back();
  measurement.gradient.reset();  // The gradient is not one of the trial's result.
  const int64_t step = measurement.step;
  const double value = measurement.metrics.at(s.spec->metric.name);
  EndAttempt(c, record, study::AttemptOutcome::kPaused);
  Move(c.state, s, slot, study::TrialEvent::kPause);
  record.trial.final_measurement = std::move(measurement);
  record.trial.releases = 0;  // The next part has attempts of its own.
  if (with_checkpoint) record.trial.checkpoint_step = step;
  slot.curve.reset();
  storage::Event& event = AddEvent(c, s, EventType::kTrialPaused, &record);
  event.actor = attempt.worker;
  event.value = value;
  event.step = step;
  event.detail =
      StepDetail(step, record.trial.checkpoint.empty() ? "without a checkpoint: going on means beginning afresh"
                       : with_checkpoint               ? ""
                                         : absl::StrCat("with the checkpoint of step ", record.trial.checkpoint_step));
  MarkDirty(c, s, record);
  PushUpdate(c, s, HistoryUpdate::Kind::kPaused, record.trial.number, nullptr);
  s.blocked = false;
  s.unblocked = c.state.counters.seq;
  if (study::IsFinished(s.record.state)) PrunePaused(c, s, slot, StudyEnded(s));
}

namespace {

// Makes the trial PRUNED with `last`. `actor` is the worker whose attempt that ends, or empty.
void PruneWith(Context& c, StudyState& s, TrialSlot& slot, const study::Measurement& last, const std::string& actor,
               const std::string& reason) {
  TrialRecord& record = *slot.record;
  const double value = last.metrics.at(s.spec->metric.name);
  if (std::isfinite(value)) {
    record.trial.final_measurement = last;
    record.trial.final_measurement->gradient.reset();
  }
  Move(c.state, s, slot, study::TrialEvent::kPrune);
  storage::Event& event = AddEvent(c, s, EventType::kTrialPruned, &record);
  event.actor = actor;
  event.step = last.step;
  event.detail = StepDetail(last.step, reason);
  event.value = value;
  Finalize(c, s, slot);
  ApplyStoppingRules(c, s, record.trial);
}

}  // namespace

void StopTrial(Context& c, StudyState& s, TrialSlot& slot, const study::Measurement& last, const std::string& reason) {
  EndLease(c, slot.record->grants.back().token, study::Directive::kStop);
  EndAttempt(c, *slot.record, study::AttemptOutcome::kPruned);
  PruneWith(c, s, slot, last, slot.record->trial.attempts.back().worker, reason);
}

void TakeFromHolder(Context& c, StudyState& s, TrialSlot& slot) {
  if (const std::optional<study::Measurement> last = slot.curve->last) {
    StopTrial(c, s, slot, *last, "its end was asked for, and its holder fell silent");
    return;
  }
  CancelTrial(c, s, slot, "its end was asked for, and its holder fell silent before it reported a value");
  CompleteWhenDone(c, s);
}

void EndAsRequested(Context& c, StudyState& s, TrialSlot& slot) {
  if (const std::optional<study::Measurement> last = slot.curve->last) {
    PruneWith(c, s, slot, *last, "", "its end was asked for, and its holder gave it back");
    return;
  }
  Move(c.state, s, slot, study::TrialEvent::kRetry);
  CancelTrial(c, s, slot, "its end was asked for, and its holder gave it back without a value");
}

void PromoteTrial(Context& c, StudyState& s, study::Provenance promotion, int64_t number) {
  TrialSlot& slot = s.trials[number - 1];
  TrialRecord& record = *slot.record;
  const uint64_t ask_index = *promotion.ask_index;
  const int64_t resource = promotion.resource;
  record.trial.promotions.push_back(std::move(promotion));
  record.trial.final_measurement.reset();
  Move(c.state, s, slot, study::TrialEvent::kPromote);
  storage::Event& event = AddEvent(c, s, EventType::kTrialPromoted, &record);
  event.step = resource;
  event.ask_index = ask_index;
  event.detail = StepDetail(resource, absl::StrCat("ask=", ask_index));
  MarkDirty(c, s, record);
  PushUpdate(c, s, HistoryUpdate::Kind::kPromoted, number, [&](HistoryUpdate& update) {
    update.ask_index = ask_index;
    update.resource = resource;
  });
}

}  // namespace luthier::coordinator
