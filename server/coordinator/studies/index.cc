#include "server/coordinator/studies/index.h"

#include <utility>

#include "lib/base/check.h"
#include "server/coordinator/studies/counts.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;

void Refuse(CoreState& state, const absl::Status& status, uint64_t number) {
  const Waiter waiter = TakeWaiter(state, number);
  if (waiter.op.done) waiter.op.done(status);
}

}  // namespace

void Uncount(CoreState& state, uint64_t number) {
  Waiter& waiter = *state.waiters.Find(number);
  const StudyKey key = std::exchange(waiter.counted_for, 0);
  if (key != 0) state.studies.at(key).Uncount(number, waiter.counted);
}

void Wake(CoreState& state, StudyKey study) {
  state.woken.insert(study);
}

Study& AddStudy(CoreState& state, Study s) {
  const StudyKey key = s.key();
  LUTHIER_CHECK(state.by_id.emplace(s.record().id, key).second);
  const auto [place, fresh] = state.studies.emplace(key, std::move(s));
  LUTHIER_CHECK(fresh);
  place->second.Join();
  return place->second;
}

void RemoveStudy(CoreState& state, StudyKey key) {
  const auto found = state.studies.find(key);
  if (found == state.studies.end()) return;
  found->second.Leave();
  state.wanting.erase(key);
  state.expired.erase(key);
  state.put_off.erase(key);
  const auto id = state.by_id.find(found->second.record().id);
  if (id != state.by_id.end() && id->second == key) state.by_id.erase(id);
  state.studies.erase(found);
  Wake(state, key);
}

void AddWaiter(CoreState& state, Waiter waiter) {
  AddUse(state, study::ProjectOfPool(waiter.pool), &ProjectUse::waiting, 1);
  state.unsettled.insert(state.waiters.Add(std::move(waiter)));
}

Waiter TakeWaiter(CoreState& state, uint64_t number) {
  Uncount(state, number);
  state.unsettled.erase(number);
  const std::string project(study::ProjectOfPool(state.waiters.Find(number)->pool));
  state.projects.at(project).stalled.erase(number);
  NoteStalled(state, project);
  AddUse(state, project, &ProjectUse::waiting, -1);
  return state.waiters.Take(number);
}

void RefuseWaiting(CoreState& state, const absl::Status& status) {
  for (const auto& [number, waiter] : state.waiters.Behind(0, state.waiters.size())) Refuse(state, status, number);
}

void RefuseWaiting(CoreState& state, const absl::Status& status, StudyKey study) {
  for (const uint64_t number : Waiters::Queue(state.waiters.Of(study))) Refuse(state, status, number);
}

}  // namespace luthier::coordinator
