// Trials of a study go on and end here.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/study/gradients.h"
#include "lib/study/metrics.h"
#include "server/coordinator/messages/digest.h"
#include "server/coordinator/messages/measurements.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/messages/text.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/study.h"
#include "server/storage/rules.h"

namespace luthier::coordinator {

using storage::EventType;
using storage::TrialRecord;
using study::AttemptOutcome;
using study::TrialEvent;
using study::TrialState;

namespace {

EventType EndOf(TrialState state) {
  switch (state) {
    case TrialState::kComplete:
      return EventType::kTrialCompleted;
    case TrialState::kPruned:
      return EventType::kTrialPruned;
    case TrialState::kFailed:
      return EventType::kTrialFailed;
    default:
      return EventType::kTrialCancelled;
  }
}

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

absl::Status Study::LoadCurve(TrialSlot& slot) {
  if (slot.curve) return absl::OkStatus();
  const study::Trial& trial = slot.record->trial;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<study::Measurement> stored,
                           c_->storage->ListMeasurements(record_.key, trial.number, trial.attempts.back().number));
  slot.curve = std::make_unique<Curve>();
  for (const study::Measurement& m : stored) CountPoint(m, *slot.curve);
  return absl::OkStatus();
}

// Adds a point to the counts of the curve.
void Study::CountPoint(const study::Measurement& m, Curve& curve) const {
  curve.digests.emplace(m.step, PointDigest(m));
  curve.gradient_bytes += study::GradientBytes(m);
  const auto value = m.metrics.find(spec_->metric.name);
  if (value == m.metrics.end() || !std::isfinite(value->second)) return;
  if (curve.last && curve.last->step > m.step) return;
  curve.last = m;
  study::ClearGradients(&*curve.last);
}

void Study::AddPoint(TrialSlot& slot, const study::Measurement& m) {
  storage::TrialRecord& record = *slot.record;
  CountPoint(m, *slot.curve);
  AddBytes(BytesOf(m));
  storage::MeasurementRecord point;
  point.study = record_.key;
  point.trial = record.trial.number;
  point.attempt = record.trial.attempts.back().number;
  point.measurement = m;
  c_->batch.measurements.push_back(std::move(point));
  storage::Event& event = AddEvent(storage::EventType::kMeasurement, &record);
  event.actor = record.trial.attempts.back().worker;
  event.step = m.step;
  event.detail = StepDetail(m.step, MetricsText(m));
  const auto value = m.metrics.find(spec_->metric.name);
  if (value == m.metrics.end()) return;
  event.value = value->second;
  if (!NeedsCurves(*spec_)) return;
  const study::CurvePoint curve_point = PointOf(m);
  event.values = curve_point.values;
  Tell(HistoryUpdate::Kind::kReported, record.trial.number, [&](HistoryUpdate& update) { update.point = curve_point; });
}

void Study::AddImportedPoint(int64_t trial, study::Measurement point) {
  AddBytes(BytesOf(point));
  c_->batch.measurements.push_back({record_.key, trial, 0, std::move(point)});
}

study::CurvePoint Study::PointOf(const study::Measurement& m) const {
  study::CurvePoint point{m.step, m.metrics.at(spec_->metric.name)};
  const bool several = study::ObjectiveCount(*spec_) > 1;
  if (!several && !study::ValuesOf(*spec_, m).has_value()) return point;
  for (const study::MetricSpec& metric : spec_->metrics) {
    const auto value = m.metrics.find(metric.name);
    const bool there = value != m.metrics.end() && std::isfinite(value->second);
    point.values.push_back(there ? value->second : std::numeric_limits<double>::quiet_NaN());
  }
  return point;
}

void Study::TellRule(int64_t trial, const study::Measurement& m) {
  if (stopper_) stopper_->ReportPoint(trial, PointOf(m));
}

void Study::TellRuleOfEnd(const study::HistoryTrial& trial) {
  if (!stopper_) return;
  // A trial that is beyond a bound must not stop others, however good its objective.
  const bool counts = trial.feasible;
  stopper_->Finish(trial.number, counts ? trial.state : TrialState::kFailed,
                   counts ? trial.value : std::optional<double>());
}

std::optional<std::string> Study::AskRule(int64_t trial, const study::Measurement& m) {
  if (!stopper_) return std::nullopt;
  stopper_->ReportPoint(trial, PointOf(m));
  stopping::Decision decision = stopper_->Decide(trial, m.step);
  if (decision.verdict != stopping::Verdict::kStop) return std::nullopt;
  return std::move(decision.reason);
}

void Study::NoteTraining(TrialSlot& slot, std::optional<int64_t> start_step, int64_t first, int64_t last) {
  if (!spec_->resource) return;
  TrialRecord& record = *slot.record;
  study::Attempt& attempt = record.trial.attempts.back();
  // Unless told otherwise, the attempt went on from the checkpoint that it was given.
  int64_t start = attempt.start_step;
  if (start_step)
    start = std::min(*start_step, first);
  else if (first <= start)
    start = 0;
  const bool restarted = start == 0 && attempt.start_step > 0;
  if (start == attempt.start_step && last <= attempt.last_step) return;
  if (restarted) {
    storage::Event& event = AddEvent(EventType::kTrialRestarted, &record);
    event.actor = attempt.worker;
    event.detail = absl::StrCat("the checkpoint of step ", attempt.start_step, " was not used; training begins afresh");
  }
  attempt.start_step = start;
  attempt.last_step = std::max(attempt.last_step, last);
  MarkDirty(record);
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

void Study::CheckDeadline(int64_t number) {
  ++c_->state.steps;
  TrialSlot& slot = this->slot(number);
  if (slot.state != study::TrialState::kRunning) return;  // Ended by a stopping rule within this loop.
  storage::TrialRecord& record = *slot.record;
  const std::string token = record.grants.back().token;
  if (!c_->leases->Expired(token, c_->batch.now)) {
    SetTimer(*c_->leases->Deadline(token));
    ClearExpired(number);  // Its lease was extended since.
    return;
  }
  if (record.trial.stop_requested) {
    if (const absl::Status loaded = LoadCurve(slot); !loaded.ok()) {
      base::LogError("curve_unreadable", {{"study", record_.id}, {"error", std::string(loaded.message())}});
      return SetTimer(c_->batch.now + spec_->lease.ttl);
    }
    return TakeFromHolder(slot);
  }
  const bool exhausted = study::AttemptsUsed(record.trial) >= spec_->lease.max_attempts;
  if (!exhausted && !study::IsFinished(record_.state)) {
    // The trial may now go to another worker; until then its holder may come back.
    if (MarkExpired(number)) slot.eligible_since = c_->batch.now;
    return;
  }
  EndLease(token, study::Directive::kLost);
  EndAttempt(record, AttemptOutcome::kExpired);
  if (exhausted) {
    Retry(slot);
  } else {
    Cancel(slot, absl::StrCat("study ", record_.state_reason));
  }
}

void Study::EndAttempt(TrialRecord& record, AttemptOutcome outcome) {
  study::Attempt& attempt = record.trial.attempts.back();
  attempt.outcome = outcome;
  attempt.end = c_->batch.wall;
  record.grants.back().end_uptime = c_->batch.uptime;
}

void Study::Retry(TrialSlot& slot) {
  TrialRecord& record = *slot.record;
  if (record.trial.stop_requested) {
    if (const std::optional<study::Measurement> last = slot.curve->last) {
      return PruneWith(slot, *last,
                       {.event = TrialEvent::kPrune, .detail = "its end was asked for, and its holder gave it back"});
    }
    Move(slot, TrialEvent::kRetry);
    return Cancel(slot, "its end was asked for, and its holder gave it back without a value");
  }
  slot.curve.reset();
  slot.eligible_since = c_->batch.now;
  if (study::AttemptsUsed(record.trial) >= spec_->lease.max_attempts) {
    record.trial.failure = AttemptsExhausted(record.trial, spec_->lease.max_attempts);
    return End(slot, {.event = TrialEvent::kFail, .detail = record.trial.failure->reason});
  }
  Move(slot, TrialEvent::kRetry);
  MarkDirty(record);
  if (study::IsFinished(record_.state)) Cancel(slot, absl::StrCat("study ", record_.state_reason));
}

void Study::PauseTrial(TrialSlot& slot, study::Measurement measurement, bool with_checkpoint) {
  TrialRecord& record = *slot.record;
  const study::Attempt& attempt = record.trial.attempts.back();
  study::ClearGradients(&measurement);  // They belong to this part, not to the trial's result.
  const int64_t step = measurement.step;
  const double value = measurement.metrics.at(spec_->metric.name);
  EndAttempt(record, study::AttemptOutcome::kPaused);
  Move(slot, study::TrialEvent::kPause);
  record.trial.final_measurement = std::move(measurement);
  record.trial.releases = 0;  // The next part has attempts of its own.
  if (with_checkpoint) record.trial.checkpoint_step = step;
  slot.curve.reset();
  storage::Event& event = AddEvent(EventType::kTrialPaused, &record);
  event.actor = attempt.worker;
  event.value = value;
  event.step = step;
  event.detail =
      StepDetail(step, record.trial.checkpoint.empty() ? "without a checkpoint: going on means beginning afresh"
                       : with_checkpoint               ? ""
                                         : absl::StrCat("with the checkpoint of step ", record.trial.checkpoint_step));
  MarkDirty(record);
  Tell(HistoryUpdate::Kind::kPaused, record.trial.number, nullptr);
  blocked_ = false;
  unblocked_ = c_->state.counters.seq;
  if (study::IsFinished(record_.state)) PrunePaused(slot, EndedText());
}

void Study::End(TrialSlot& slot, const TrialEnd& end) {
  TrialRecord& record = *slot.record;
  if (end.attempt) EndAttempt(record, *end.attempt);
  if (end.directive) EndLease(record.grants.back().token, *end.directive);
  // A suggestion may continue this trial.
  if (slot.state == TrialState::kPaused && end.event == TrialEvent::kCancel) DropReady();
  Move(slot, end.event);
  Conclude(slot, end);
}

void Study::EndImported(TrialSlot& slot, TrialState state, const TrialEnd& end) {
  LUTHIER_CHECK(slot.state == TrialState::kPending && study::IsFinal(state));
  CountMove(slot.state, state);
  slot.state = state;
  slot.record->trial.state = state;
  Conclude(slot, end);
}

// The trial has its final state: writes its event and its row, and tells whoever must know.
void Study::Conclude(TrialSlot& slot, const TrialEnd& end) {
  TrialRecord& record = *slot.record;
  storage::Event& event = AddEvent(EndOf(slot.state), &record);
  event.actor = end.actor;
  event.detail = end.detail;
  event.value = end.value;
  event.step = end.step;
  record.trial.end_time = c_->batch.wall;
  record.finish_seq = event.seq;
  AddBytes(BytesOf(record.trial));
  MarkDirty(record);
  Tell(HistoryUpdate::Kind::kFinished, record.trial.number, [&](HistoryUpdate& update) {
    update.trial = ToHistoryTrial(record.trial, *spec_);
    update.worker = study::ReporterOf(record.trial);
  });
  TellRuleOfEnd(c_->batch.updates.back().trial);
  blocked_ = false;
  unblocked_ = record.finish_seq;
  CountFinished(storage::SketchOf(record, *spec_), &record.trial);
  CountModel(record.trial);
  if (end.rules) ApplyStoppingRules(record.trial);
}

// Makes the trial PRUNED with `last`; the detail of `end` says why.
void Study::PruneWith(TrialSlot& slot, const study::Measurement& last, TrialEnd end) {
  const double value = last.metrics.at(spec_->metric.name);
  if (std::isfinite(value)) {
    slot.record->trial.final_measurement = last;
    study::ClearGradients(&*slot.record->trial.final_measurement);
  }
  end.step = last.step;
  end.detail = StepDetail(last.step, end.detail);
  end.value = value;
  End(slot, end);
}

void Study::StopTrial(TrialSlot& slot, const study::Measurement& last, const std::string& reason) {
  PruneWith(slot, last,
            {.event = TrialEvent::kPrune,
             .attempt = AttemptOutcome::kPruned,
             .directive = study::Directive::kStop,
             .actor = slot.record->trial.attempts.back().worker,
             .detail = reason});
}

void Study::TakeFromHolder(TrialSlot& slot) {
  if (const std::optional<study::Measurement> last = slot.curve->last) {
    StopTrial(slot, *last, "its end was asked for, and its holder fell silent");
    return;
  }
  Cancel(slot, "its end was asked for, and its holder fell silent before it reported a value");
  CompleteWhenDone();
}

void Study::Cancel(TrialSlot& slot, const std::string& why, const std::string& actor) {
  TrialEnd end{.event = TrialEvent::kCancel, .actor = actor, .detail = why, .rules = false};
  if (slot.state == TrialState::kRunning) {
    end.attempt = AttemptOutcome::kCancelled;
    end.directive = study::Directive::kStop;
  }
  End(slot, end);
}

void Study::PrunePaused(TrialSlot& slot, const std::string& why) {
  const study::Measurement& last = *slot.record->trial.final_measurement;
  End(slot, {.event = TrialEvent::kPrune,
             .detail = absl::StrCat("was PAUSED at step ", last.step, " when ", why),
             .value = last.metrics.at(spec_->metric.name),
             .rules = false});
}

std::string PointDigest(const study::Measurement& point) {
  FinishOp op;
  op.content = CompleteContent{point, false, ""};
  return DigestOf(op);
}

}  // namespace luthier::coordinator
