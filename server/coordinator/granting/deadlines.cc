#include "server/coordinator/granting/deadlines.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/state/index.h"
#include "server/coordinator/trials/attempts.h"
#include "server/coordinator/trials/curve.h"
#include "server/coordinator/trials/ending.h"
#include "server/coordinator/trials/study_end.h"

namespace luthier::coordinator {
namespace {

void CheckDeadline(Context& c, StudyState& s, int64_t number) {
  ++c.state.steps;
  TrialSlot& slot = s.trials[number - 1];
  if (slot.state != study::TrialState::kRunning) return;  // Ended by a stopping rule within this loop.
  storage::TrialRecord& record = *slot.record;
  const std::string token = record.grants.back().token;
  if (!c.leases->Expired(token, c.batch.now)) {
    SetTimer(c.state, s, *c.leases->Deadline(token));
    ClearExpired(c.state, s, number);  // Its lease was extended since.
    return;
  }
  if (record.trial.stop_requested) {
    if (const absl::Status loaded = LoadCurve(c, s, slot); !loaded.ok()) {
      base::LogError("curve_unreadable", {{"study", s.record.id}, {"error", std::string(loaded.message())}});
      return SetTimer(c.state, s, c.batch.now + s.spec->lease.ttl);
    }
    return TakeFromHolder(c, s, slot);
  }
  const bool exhausted = study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts;
  if (!exhausted && !study::IsFinished(s.record.state)) {
    // The trial may now go to another worker; until then its holder may come back.
    if (MarkExpired(c.state, s, number)) slot.eligible_since = c.batch.now;
    return;
  }
  EndLease(c, token, study::Directive::kLost);
  EndAttempt(c, record, study::AttemptOutcome::kExpired);
  if (exhausted) {
    RetryOrGiveUp(c, s, slot);
  } else {
    CancelTrial(c, s, slot, absl::StrCat("study ", s.record.state_reason));
  }
}

}  // namespace

void CheckDeadlines(Context& c) {
  // A time in which this process did not run must not cost a worker its lease: no lease could be renewed through it.
  const absl::Duration gap = c.batch.now - c.state.last_tick;
  if (gap > c.options.stall) ExtendLeases(c, gap);
  c.state.last_tick = c.batch.now;
  std::set<storage::StudyKey> due;
  for (auto it = c.state.timers.begin(); it != c.state.timers.end() && it->first <= c.batch.now; ++it) {
    due.insert(it->second);
  }
  for (const storage::StudyKey key : due) {
    StudyState& s = c.state.studies.at(key);
    ClearTimer(c.state, s);
    for (const int64_t number : std::set<int64_t>(s.running)) CheckDeadline(c, s, number);
    if (TimeIsUp(c, s) && !study::IsFinished(s.record.state)) EndWhenDue(c, s);
    WatchTime(c, s);
    Wake(c.state, key);  // A trial may no longer be kept for other workers.
  }
  for (const storage::StudyKey key : std::exchange(c.state.departed, {})) {
    const auto found = c.state.studies.find(key);
    if (found == c.state.studies.end()) continue;
    found->second.departed = 0;
    Wake(c.state, key);
  }
}

void ExtendLeases(Context& c, absl::Duration by) {
  c.leases->ShiftAll(by);
  // Some of these leases may no longer be expired; the others only end later than at their timers.
  for (const storage::StudyKey key : c.state.expired) {
    SetTimer(c.state, c.state.studies.at(key), absl::ZeroDuration());
  }
}

}  // namespace luthier::coordinator
