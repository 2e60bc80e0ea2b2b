#include "server/coordinator/studies/counts.h"

#include <algorithm>
#include <optional>

#include "lib/base/check.h"
#include "lib/study/project.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {

using study::TrialState;

std::unordered_map<std::string, int> CountHeld(const CoreState& state) {
  std::unordered_map<std::string, int> held;
  for (const auto& [key, s] : state.studies) {
    for (const int64_t number : s.running()) {
      if (s.expired().count(number) == 0) ++held[s.slot(number).record->trial.attempts.back().worker];
    }
  }
  return held;
}

int Held(const CoreState& state, const std::string& worker) {
  const auto found = state.held.find(worker);
  return found == state.held.end() ? 0 : found->second;
}

std::map<std::string, ProjectUse> CountUse(const CoreState& state) {
  std::map<std::string, ProjectUse> projects;
  for (const auto& [key, s] : state.studies) {
    ProjectUse& use = projects[std::string(study::ProjectOf(s.record().id))];
    ++use.studies;
    use.bytes += s.record().bytes;
    use.running += static_cast<int64_t>(s.running().size() - s.expired().size());
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

}  // namespace luthier::coordinator
