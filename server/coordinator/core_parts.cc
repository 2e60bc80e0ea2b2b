// Core: learning curves, and training in parts: targets, pauses, promotions, and rules that stop a trial early.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/suggest/registry.h"
#include "server/coordinator/core.h"

namespace luthier::coordinator {

using storage::EventType;
using storage::TrialRecord;
using study::TrialState;

void Core::PushUpdate(StudyState& s, HistoryUpdate::Kind kind, int64_t number,
                      const std::function<void(HistoryUpdate&)>& fill) {
  HistoryUpdate update;
  update.study = s.record.key;
  update.seq = seq_;
  update.kind = kind;
  update.trial.number = number;
  if (fill) fill(update);
  updates_.push_back(std::move(update));
}

void Core::NoteTraining(StudyState& s, TrialSlot& slot, std::optional<int64_t> start_step, int64_t first,
                        int64_t last) {
  if (!s.spec->resource) return;
  TrialRecord& record = *slot.record;
  study::Attempt& attempt = record.trial.attempts.back();
  // Since its grant it counts as going on from the checkpoint that it was given.
  int64_t start = attempt.start_step;
  if (start_step)
    start = std::min(*start_step, first);
  else if (first <= start)
    start = 0;
  const bool restarted = start == 0 && attempt.start_step > 0;
  if (start == attempt.start_step && last <= attempt.last_step) return;
  if (restarted) {
    storage::Event& event = AddEvent(s, EventType::kTrialRestarted, &record);
    event.actor = attempt.worker;
    event.detail = absl::StrCat("the checkpoint of step ", attempt.start_step, " was not used; training begins afresh");
  }
  attempt.start_step = start;
  attempt.last_step = std::max(attempt.last_step, last);
  MarkDirty(s, record);
}

void Core::DropReady(StudyState& s) {
  s.ready.clear();
  ++s.generation;
  s.computing = false;
  s.blocked = false;
  s.exhausted = false;
  // The designer's history holds suggestions that never were.
  invalidated_.push_back(s.record.key);
}

void Core::PauseTrial(StudyState& s, TrialSlot& slot, study::Measurement measurement, bool with_checkpoint) {
  TrialRecord& record = *slot.record;
  const study::Attempt& attempt = record.trial.attempts.back();
  measurement.gradient.reset();  // It is not the trial's result.
  const int64_t step = measurement.step;
  const double value = measurement.metrics.at(s.spec->metric.name);
  EndAttempt(record, study::AttemptOutcome::kPaused);
  Move(s, slot, study::TrialEvent::kPause);
  record.trial.final_measurement = std::move(measurement);
  record.trial.releases = 0;  // The next part has attempts of its own.
  if (with_checkpoint) record.trial.checkpoint_step = step;
  slot.curve.reset();
  storage::Event& event = AddEvent(s, EventType::kTrialPaused, &record);
  event.actor = attempt.worker;
  event.value = value;
  event.detail =
      StepDetail(step, record.trial.checkpoint.empty() ? "without a checkpoint: going on means beginning afresh"
                       : with_checkpoint               ? ""
                                         : absl::StrCat("with the checkpoint of step ", record.trial.checkpoint_step));
  MarkDirty(s, record);
  PushUpdate(s, HistoryUpdate::Kind::kPaused, record.trial.number, nullptr);
  s.blocked = false;
  s.unblocked = seq_;
  if (study::IsFinished(s.record.state)) PrunePaused(s, slot);
}

void Core::PrunePaused(StudyState& s, TrialSlot& slot) {
  TrialRecord& record = *slot.record;
  Move(s, slot, study::TrialEvent::kPrune);
  storage::Event& event = AddEvent(s, EventType::kTrialPruned, &record);
  event.detail = absl::StrCat("was PAUSED at step ", record.trial.final_measurement->step, " when the study ended (",
                              s.record.state_reason, ")");
  event.value = record.trial.final_measurement->metrics.at(s.spec->metric.name);
  Finalize(s, slot);
}

void Core::StopTrial(StudyState& s, TrialSlot& slot, const study::Measurement& last, const std::string& reason) {
  TrialRecord& record = *slot.record;
  const double value = last.metrics.at(s.spec->metric.name);
  if (std::isfinite(value)) {
    record.trial.final_measurement = last;
    record.trial.final_measurement->gradient.reset();
  }
  EndLease(record.grants.back().token, Directive::kStop);
  EndAttempt(record, study::AttemptOutcome::kPruned);
  Move(s, slot, study::TrialEvent::kPrune);
  storage::Event& event = AddEvent(s, EventType::kTrialPruned, &record);
  event.actor = record.trial.attempts.back().worker;
  event.detail = StepDetail(last.step, reason);
  event.value = value;
  Finalize(s, slot);
  ApplyStoppingRules(s, record.trial);
}

void Core::PromoteTrial(StudyState& s, study::Provenance promotion, int64_t number) {
  TrialSlot& slot = s.trials[number - 1];
  TrialRecord& record = *slot.record;
  const uint64_t ask_index = *promotion.ask_index;
  const int64_t resource = promotion.resource;
  record.trial.promotions.push_back(std::move(promotion));
  record.trial.final_measurement.reset();
  Move(s, slot, study::TrialEvent::kPromote);
  AddEvent(s, EventType::kTrialPromoted, &record).detail = StepDetail(resource, absl::StrCat("ask=", ask_index));
  MarkDirty(s, record);
  PushUpdate(s, HistoryUpdate::Kind::kPromoted, number, [&](HistoryUpdate& update) {
    update.ask_index = ask_index;
    update.resource = resource;
  });
}

bool Core::CanGrant(const StudyState& s, const suggest::Suggestion& suggestion) const {
  return suggestion.resume ? s.paused.count(*suggestion.resume) > 0 : RoomForNew(s) > 0;
}

study::Provenance Core::TakeReady(StudyState& s, suggest::Suggestion* suggestion) {
  study::Provenance provenance;
  provenance.prefix_seq = s.ready.front().first;
  *suggestion = std::move(s.ready.front().second);
  s.ready.pop_front();
  provenance.designer = study::AlgorithmName(s.spec->algorithm);
  provenance.algorithm_version = suggest::InfoOf(s.spec->algorithm).version;
  provenance.ask_index = s.asks_stored++;
  provenance.origin = std::move(suggestion->origin);
  provenance.details = std::move(suggestion->details);
  provenance.carry = std::move(suggestion->carry);
  provenance.direction = std::move(suggestion->direction);
  provenance.resource = suggestion->resource;
  return provenance;
}

}  // namespace luthier::coordinator
