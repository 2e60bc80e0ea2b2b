#include "server/coordinator/granting/room.h"

#include <algorithm>


namespace luthier::coordinator {
namespace {

using study::TrialState;

// Another worker, if there is one, gets the first chance for one TTL, because the fault may lie with the first worker.
// A worker that gave the trial back was only shutting down, and may have it again at once. Returns the end of that
// time; if it is not after now, `worker` may have the trial.
absl::Duration KeptForOthersUntil(const Context& c, const StudyState& s, const TrialSlot& slot,
                                  const std::string& worker) {
  const absl::Duration ttl = s.spec->lease.ttl;
  const study::Attempt& last = slot.record->trial.attempts.back();
  if (last.outcome == study::AttemptOutcome::kReleased || last.worker != worker) return -absl::InfiniteDuration();
  // A worker that asked within the last TTL counts as present.
  const absl::Duration others_gone = c.state.pools.at(s.pool).askers.LastBeside(worker) + ttl + absl::Nanoseconds(1);
  return std::min(slot.eligible_since + ttl, others_gone);
}

}  // namespace

int64_t RoomToRun(const Context& c, const StudyState& s) {
  const int64_t limit =
      s.spec->budget.max_parallel > 0 ? s.spec->budget.max_parallel : c.options.limits.leases_per_study;
  return limit - static_cast<int64_t>(s.running.size());
}

int64_t RoomForNew(const Context& c, const StudyState& s) {
  return s.spec->budget.max_trials - static_cast<int64_t>(s.trials.size());
}

std::vector<int64_t> EligibleTrials(const Context& c, const StudyState& s, const std::string& worker, int count,
                                    absl::Duration* again) {
  std::vector<int64_t> candidates(s.retries.begin(), s.retries.end());
  candidates.insert(candidates.end(), s.expired.begin(), s.expired.end());
  std::sort(candidates.begin(), candidates.end());
  std::vector<int64_t> chosen;
  int64_t room = RoomToRun(c, s);
  const auto take = [&](int64_t number, bool runs_already) {
    if (static_cast<int>(chosen.size()) >= count) return;
    if (!runs_already && room <= 0) return;
    if (!runs_already) --room;
    chosen.push_back(number);
  };
  for (const int64_t number : candidates) {
    const TrialSlot& slot = s.trials[number - 1];
    const bool expired = slot.state == TrialState::kRunning;
    if (expired && !c.leases->Expired(slot.record->grants.back().token, c.batch.now)) continue;
    const absl::Duration kept_until = KeptForOthersUntil(c, s, slot, worker);
    if (kept_until > c.batch.now)
      *again = std::min(*again, kept_until);
    else
      take(number, expired);
  }
  for (const int64_t number : s.enqueued) take(number, false);
  return chosen;
}

bool MoreMayCome(const StudyState& s) {
  return s.history.ok() && !s.exhausted && !(s.blocked && !Computing(s));
}

bool MayServe(const Context& c, const StudyState& s) {
  if (s.record.state != study::StudyState::kActive) return false;
  if (!s.expired.empty()) return true;  // A worker that takes the place of an expired holder needs no room.
  const int64_t room = RoomToRun(c, s);
  if (room > 0 && (!s.retries.empty() || !s.enqueued.empty())) return true;
  if (s.demand >= room || (s.paused.empty() && s.demand >= RoomForNew(c, s))) return false;
  const int64_t missing = s.demand - static_cast<int64_t>(s.ready.size());
  return missing < 0 || (MoreMayCome(s) && missing < kMaxProposals);
}

}  // namespace luthier::coordinator
