#include "server/coordinator/granting/room.h"

#include <algorithm>

#include "server/coordinator/mutants.h"

namespace luthier::coordinator {
namespace {

using study::TrialState;

bool OthersAskedSince(const CoreState& state, const std::string& worker, absl::Duration since) {
  return std::any_of(state.last_seen.begin(), state.last_seen.end(),
                     [&](const auto& seen) { return seen.first != worker && seen.second >= since; });
}

// Another worker gets the first chance, for one TTL, if there is another: the fault may be the first one's. Who gave
// the trial back was only shutting down, and may be there again.
bool KeptForOthers(const Context& c, const StudyState& s, const TrialSlot& slot, const std::string& worker) {
  const absl::Duration now = c.batch.now;
  const absl::Duration ttl = s.spec->lease.ttl;
  const study::Attempt& last = slot.record->trial.attempts.back();
  return last.outcome != study::AttemptOutcome::kReleased && last.worker == worker && now < slot.eligible_since + ttl &&
         OthersAskedSince(c.state, worker, now - ttl);
}

}  // namespace

int64_t RoomToRun(const Context& c, const StudyState& s) {
  const int64_t limit =
      s.spec->budget.max_parallel > 0 ? s.spec->budget.max_parallel : c.options.limits.leases_per_study;
  return limit - static_cast<int64_t>(s.running.size());
}

int64_t RoomForNew(const Context& c, const StudyState& s) {
  int64_t rows = static_cast<int64_t>(s.trials.size());
  if (Mutated(Mutant::kBudgetNotCounted)) {
    const uint64_t committed = c.batch.at_begin.seq;
    while (rows > 0 && s.trials[rows - 1].record && s.trials[rows - 1].record->create_seq > committed) --rows;
  }
  return s.spec->budget.max_trials - rows;
}

std::vector<int64_t> EligibleTrials(const Context& c, const StudyState& s, const std::string& worker, int count) {
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
    if (!KeptForOthers(c, s, slot, worker)) take(number, expired);
  }
  for (const int64_t number : s.enqueued) take(number, false);
  return chosen;
}

}  // namespace luthier::coordinator
