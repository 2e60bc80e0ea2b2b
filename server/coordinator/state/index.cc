#include "server/coordinator/state/index.h"

#include <utility>

#include "lib/base/check.h"
#include "server/coordinator/state/counts.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;

void CountTrials(CoreState& state, const StudyState& s, int by) {
  AddUse(state, study::ProjectOf(s.record.id), &ProjectUse::studies, by);
  AddUse(state, study::ProjectOf(s.record.id), &ProjectUse::bytes, by * s.record.bytes);
  for (size_t i = 0; i < state.totals.size(); ++i) state.totals[i] += by * s.counts[i];
  for (const int64_t number : s.running) {
    if (s.expired.count(number) > 0) continue;
    AddHeld(state, s, s.trials[number - 1].record->trial.attempts.back().worker, by);
  }
}

// Removes the ask `number` from the demand of its study.
void Uncount(CoreState& state, uint64_t number) {
  Waiter& waiter = *state.waiters.Find(number);
  const StudyKey key = std::exchange(waiter.counted_for, 0);
  if (key == 0) return;
  StudyState& s = state.studies.at(key);
  s.demand -= waiter.counted;
  s.counted.erase(number);
  Wake(state, key);
}

void Refuse(CoreState& state, const absl::Status& status, uint64_t number) {
  const Waiter waiter = TakeWaiter(state, number);
  if (waiter.op.done) waiter.op.done(status);
}

}  // namespace

void Wake(CoreState& state, StudyKey study) {
  state.woken.insert(study);
}

void SetTimer(CoreState& state, StudyState& s, absl::Duration when) {
  if (when >= s.timer) return;
  ClearTimer(state, s);
  s.timer = when;
  state.timers.emplace(when, s.record.key);
}

void ClearTimer(CoreState& state, StudyState& s) {
  state.timers.erase({s.timer, s.record.key});
  s.timer = absl::InfiniteDuration();
}

void PlaceAt(CoreState& state, StudyState& s, std::optional<Rank> rank, bool fresh) {
  if (!rank && !s.rank) return;
  Pool& pool = state.pools[s.pool];
  if (s.rank) {
    pool.open.erase(*s.rank);
    if (pool.fresh.erase(*s.rank) > 0) fresh = true;
  }
  s.rank = rank;
  if (!rank) return;
  pool.open.insert(*rank);
  if (fresh) pool.fresh.insert(*rank);
}

void SetComputing(CoreState& state, StudyState& s, absl::Duration since) {
  if (Computing(s)) state.computing.erase({s.computing_since, s.record.key});
  s.computing_since = since;
  if (Computing(s)) state.computing.emplace(since, s.record.key);
}

StudyState& AddStudy(CoreState& state, StudyState s) {
  s.pool = study::PoolKey(study::ProjectOf(s.record.id), s.spec->pool);
  const StudyKey key = s.record.key;
  const absl::Duration timer = std::exchange(s.timer, absl::InfiniteDuration());
  LUTHIER_CHECK(state.by_id.emplace(s.record.id, key).second);
  const auto [place, fresh] = state.studies.emplace(key, std::move(s));
  LUTHIER_CHECK(fresh);
  StudyState& added = place->second;
  CountTrials(state, added, 1);
  SetTimer(state, added, timer);
  Wake(state, key);
  return added;
}

void RemoveStudy(CoreState& state, StudyKey key) {
  const auto found = state.studies.find(key);
  if (found == state.studies.end()) return;
  StudyState& s = found->second;
  CountTrials(state, s, -1);
  Recount(state, s);
  PlaceAt(state, s, std::nullopt, /*fresh=*/false);
  ClearTimer(state, s);
  SetComputing(state, s, absl::InfiniteDuration());
  state.wanting.erase(key);
  state.expired.erase(key);
  state.put_off.erase(key);
  if (const auto id = state.by_id.find(s.record.id); id != state.by_id.end() && id->second == key)
    state.by_id.erase(id);
  state.studies.erase(found);
  Wake(state, key);
}

void Count(CoreState& state, StudyState& s, uint64_t number, int64_t wanted) {
  Uncount(state, number);
  Waiter& waiter = *state.waiters.Find(number);
  waiter.counted_for = s.record.key;
  waiter.counted = wanted;
  s.counted.insert(number);
  s.demand += wanted;
  state.wanting.insert(s.record.key);
}

void CountDeparted(CoreState& state, StudyState& s, int64_t wanted) {
  s.demand += wanted;
  s.departed += wanted;
  state.departed.insert(s.record.key);
  state.wanting.insert(s.record.key);
}

void Recount(CoreState& state, StudyState& s) {
  for (const uint64_t number : s.counted) {
    state.waiters.Find(number)->counted_for = 0;
    state.unsettled.insert(number);
  }
  s.counted.clear();
  s.demand = s.departed;
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
