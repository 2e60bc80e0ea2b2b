#include "server/coordinator/batch/changes.h"

#include "server/coordinator/state/index.h"

namespace luthier::coordinator {

storage::Event& AddEvent(Context& c, StudyState& s, storage::EventType type, const storage::TrialRecord* record) {
  storage::Event event;
  event.seq = ++c.state.counters.seq;
  event.time = c.batch.wall;
  event.study = s.record.key;
  event.study_id = s.record.id;
  event.type = type;
  if (record != nullptr) {
    event.trial = record->trial.number;
    event.attempt = record->trial.attempts.empty() ? 0 : record->trial.attempts.back().number;
  }
  s.record.update_seq = event.seq;
  s.record.update_time = c.batch.wall;
  c.batch.touched.try_emplace(s.record.key, s.record.id);
  c.batch.events.push_back(std::move(event));
  return c.batch.events.back();
}

void MarkDirty(Context& c, StudyState& s, storage::TrialRecord& record) {
  record.trial.update_seq = c.state.counters.seq;
  c.batch.touched.try_emplace(s.record.key, s.record.id);
  c.batch.dirty_trials.emplace(s.record.key, record.trial.number);
}

void PushUpdate(Context& c, StudyState& s, HistoryUpdate::Kind kind, int64_t number,
                const std::function<void(HistoryUpdate&)>& fill) {
  HistoryUpdate update;
  update.study = s.record.key;
  update.seq = c.state.counters.seq;
  update.kind = kind;
  update.trial.number = number;
  if (fill) fill(update);
  c.batch.updates.push_back(std::move(update));
}

void DropReady(Context& c, StudyState& s) {
  Wake(c.state, s.record.key);
  c.state.wanting.insert(s.record.key);  // Asks may wait for the suggestions that replace them.
  s.ready.clear();
  ++s.generation;
  SetComputing(c.state, s, absl::InfiniteDuration());
  s.blocked = false;
  s.exhausted = false;
  // The designer's history holds suggestions that were dropped.
  c.outbox.invalidated.push_back(s.record.key);
}

void EndLease(Context& c, const std::string& token, study::Directive directive) {
  c.batch.ending_leases.emplace_back(token, directive);
}

}  // namespace luthier::coordinator
