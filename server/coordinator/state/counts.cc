#include "server/coordinator/state/counts.h"

#include <algorithm>
#include <optional>

#include "lib/base/check.h"
#include "lib/study/project.h"
#include "server/coordinator/state/index.h"

namespace luthier::coordinator {

using study::TrialState;

void CountNew(CoreState& state, StudyState& s) {
  ++s.counts[static_cast<size_t>(TrialState::kPending)];
  ++state.totals[static_cast<size_t>(TrialState::kPending)];
  Wake(state, s.record.key);
}

void Move(CoreState& state, StudyState& s, TrialSlot& slot, study::TrialEvent event) {
  const std::optional<TrialState> next = study::Next(slot.state, event);
  LUTHIER_CHECK(next.has_value());
  for (auto* counts : {&s.counts, &state.totals}) {
    --(*counts)[static_cast<size_t>(slot.state)];
    ++(*counts)[static_cast<size_t>(*next)];
  }
  Wake(state, s.record.key);
  slot.state = *next;
  slot.record->trial.state = *next;
  const int64_t number = slot.record->trial.number;
  ClearExpired(state, s, number);
  if (s.running.erase(number) > 0) AddHeld(state, s, slot.record->trial.attempts.back().worker, -1);
  s.retries.erase(number);
  s.enqueued.erase(number);
  s.paused.erase(number);
  if (*next == TrialState::kPaused) s.paused.insert(number);
  if (*next == TrialState::kRunning) s.running.insert(number);
  if (*next == TrialState::kPending) s.retries.insert(number);
}

void MoveImported(CoreState& state, StudyState& s, TrialSlot& slot, TrialState next) {
  LUTHIER_CHECK(slot.state == TrialState::kPending && study::IsFinal(next));
  for (auto* counts : {&s.counts, &state.totals}) {
    --(*counts)[static_cast<size_t>(slot.state)];
    ++(*counts)[static_cast<size_t>(next)];
  }
  slot.state = next;
  slot.record->trial.state = next;
}

void CountFinished(StudyState& s, const storage::TrialSketch& trial) {
  if (trial.removed) {
    if (trial.state == TrialState::kFailed) ++s.removed_failed;
    return;
  }
  if (trial.state == TrialState::kCancelled) return;
  if (trial.state == TrialState::kFailed) {
    if (trial.finish_seq > s.record.resume_seq) ++s.failures_in_row;
  } else {
    s.failures_in_row = 0;
  }
  ++s.finished_since_best;
  if (!trial.value) return;
  const double score = study::Score(s.spec->metric.goal, *trial.value);
  if (!s.best_score || score > *s.best_score) {
    s.best_score = score;
    s.best_trial = trial.number;
    s.finished_since_best = 0;
  }
}

void CountAllFinished(StudyState& s, std::vector<storage::TrialSketch> finished) {
  s.failures_in_row = 0;
  s.best_score.reset();
  s.best_trial = 0;
  s.removed_failed = 0;
  s.finished_since_best = 0;
  s.models.clear();
  std::sort(finished.begin(), finished.end(), [](const auto& a, const auto& b) { return a.finish_seq < b.finish_seq; });
  for (const storage::TrialSketch& trial : finished) {
    CountFinished(s, trial);
    if (trial.record) CountModel(s, trial.record->trial);
  }
}

void CountModel(StudyState& s, const study::Trial& trial) {
  if (trial.state != TrialState::kComplete || study::IsRemoved(trial) || !study::WarmStarts(*s.spec)) return;
  s.models.emplace_back(trial.number, trial.parameters);
}

std::unordered_map<std::string, int> CountHeld(const CoreState& state) {
  std::unordered_map<std::string, int> held;
  for (const auto& [key, s] : state.studies) {
    for (const int64_t number : s.running) {
      if (s.expired.count(number) == 0) ++held[s.trials[number - 1].record->trial.attempts.back().worker];
    }
  }
  return held;
}

int Held(const CoreState& state, const std::string& worker) {
  const auto found = state.held.find(worker);
  return found == state.held.end() ? 0 : found->second;
}

void AddHeld(CoreState& state, const StudyState& s, const std::string& worker, int by) {
  AddUse(state, study::ProjectOf(s.record.id), &ProjectUse::running, by);
  const auto place = state.held.try_emplace(worker, 0).first;
  place->second += by;
  LUTHIER_CHECK(place->second >= 0);
  if (place->second == 0) state.held.erase(place);
}

std::map<std::string, ProjectUse> CountUse(const CoreState& state) {
  std::map<std::string, ProjectUse> projects;
  for (const auto& [key, s] : state.studies) {
    ProjectUse& use = projects[std::string(study::ProjectOf(s.record.id))];
    ++use.studies;
    use.bytes += s.record.bytes;
    use.running += static_cast<int64_t>(s.running.size() - s.expired.size());
  }
  for (const auto& [number, waiter] : state.waiters.Behind(0, state.waiters.size())) {
    ++projects[std::string(study::ProjectOfPool(waiter->pool))].waiting;
  }
  return projects;
}

void AddUse(CoreState& state, absl::string_view project, int64_t ProjectUse::* count, int64_t by) {
  const auto place = state.projects.try_emplace(std::string(project)).first;
  ProjectUse& use = place->second;
  use.*count += by;
  LUTHIER_CHECK(use.*count >= 0);
  if (by < 0 && count == &ProjectUse::running) {
    Unstall(state, use);
    NoteStalled(state, place->first);
  }
  if (use == ProjectUse()) state.projects.erase(place);
}

void Unstall(CoreState& state, ProjectUse& use) {
  state.unsettled.merge(use.stalled);
  use.stalled.clear();
}

void NoteStalled(CoreState& state, const std::string& project) {
  const auto use = state.projects.find(project);
  const bool held = use != state.projects.end() && !use->second.stalled.empty();
  const bool changed = held ? state.held_back.insert(project).second : state.held_back.erase(project) > 0;
  if (changed) ++state.held_back_version;
}

bool MarkExpired(CoreState& state, StudyState& s, int64_t number) {
  if (!s.expired.insert(number).second) return false;
  state.expired.insert(s.record.key);
  Wake(state, s.record.key);
  AddHeld(state, s, s.trials[number - 1].record->trial.attempts.back().worker, -1);
  return true;
}

bool ClearExpired(CoreState& state, StudyState& s, int64_t number) {
  if (s.expired.erase(number) == 0) return false;
  if (s.expired.empty()) state.expired.erase(s.record.key);
  Wake(state, s.record.key);
  AddHeld(state, s, s.trials[number - 1].record->trial.attempts.back().worker, 1);
  return true;
}

}  // namespace luthier::coordinator
