#include "server/coordinator/trials/ending.h"

#include "absl/strings/str_cat.h"
#include "server/coordinator/batch/bytes.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/state/counts.h"
#include "server/storage/rules.h"

namespace luthier::coordinator {

using storage::EventType;
using storage::TrialRecord;
using study::TrialState;

void EndAttempt(Context& c, TrialRecord& record, study::AttemptOutcome outcome) {
  study::Attempt& attempt = record.trial.attempts.back();
  attempt.outcome = outcome;
  attempt.end = c.batch.wall;
  record.grants.back().end_uptime = c.batch.uptime;
}

void Finalize(Context& c, StudyState& s, TrialSlot& slot) {
  TrialRecord& record = *slot.record;
  record.trial.end_time = c.batch.wall;
  record.finish_seq = c.state.counters.seq;
  AddBytes(c, s, BytesOf(record.trial));
  MarkDirty(c, s, record);
  PushUpdate(c, s, HistoryUpdate::Kind::kFinished, record.trial.number, [&](HistoryUpdate& update) {
    update.trial = ToHistoryTrial(record.trial, s.spec->metric);
    update.worker = study::ReporterOf(record.trial);
  });
  if (s.stopper) {
    const study::HistoryTrial& trial = c.batch.updates.back().trial;
    s.stopper->Finish(trial.number, trial.state, trial.value);
  }
  s.blocked = false;
  s.unblocked = record.finish_seq;
  CountFinished(s, storage::SketchOf(record, s.spec->metric.name));
  CountModel(s, record.trial);
}

void CancelTrial(Context& c, StudyState& s, TrialSlot& slot, const std::string& why) {
  TrialRecord& record = *slot.record;
  if (slot.state == TrialState::kRunning) {
    EndAttempt(c, record, study::AttemptOutcome::kCancelled);
    EndLease(c, record.grants.back().token, study::Directive::kStop);
  } else if (slot.state == TrialState::kPaused) {
    DropReady(c, s);  // A suggestion may continue this trial.
  }
  Move(c.state, s, slot, study::TrialEvent::kCancel);
  AddEvent(c, s, EventType::kTrialCancelled, &record).detail = why;
  Finalize(c, s, slot);
}

void PrunePaused(Context& c, StudyState& s, TrialSlot& slot, const std::string& why) {
  TrialRecord& record = *slot.record;
  Move(c.state, s, slot, study::TrialEvent::kPrune);
  storage::Event& event = AddEvent(c, s, EventType::kTrialPruned, &record);
  event.detail = absl::StrCat("was PAUSED at step ", record.trial.final_measurement->step, " when ", why);
  event.value = record.trial.final_measurement->metrics.at(s.spec->metric.name);
  Finalize(c, s, slot);
}

}  // namespace luthier::coordinator
