#include "server/coordinator/granting/deadlines.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/trials/attempts.h"
#include "server/coordinator/trials/ending.h"

namespace luthier::coordinator {
namespace {

void CheckDeadline(Context& c, StudyState& s, int64_t number) {
  TrialSlot& slot = s.trials[number - 1];
  if (slot.state != study::TrialState::kRunning) return;  // Ended by a stopping rule within this loop.
  storage::TrialRecord& record = *slot.record;
  const std::string token = record.grants.back().token;
  if (!c.leases->Expired(token, c.batch.now)) {
    s.next_expiry_check = std::min(s.next_expiry_check, *c.leases->Deadline(token));
    ClearExpired(c.state, s, number);  // It was given more time since.
    return;
  }
  const bool exhausted = study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts;
  if (!exhausted && !study::IsFinished(s.record.state)) {
    // Eligible for another worker; until then its holder may come back.
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
  // If we were not running, no lease was renewed through us: that must not cost a worker its lease.
  const absl::Duration gap = c.batch.now - c.state.last_tick;
  if (gap > c.options.stall) ExtendLeases(c, gap);
  c.state.last_tick = c.batch.now;
  for (auto& [key, s] : c.state.studies) {
    if (s.running.empty() || c.batch.now < s.next_expiry_check) continue;
    s.next_expiry_check = absl::InfiniteDuration();
    for (const int64_t number : std::set<int64_t>(s.running)) CheckDeadline(c, s, number);
  }
}

void ExtendLeases(Context& c, absl::Duration by) {
  c.leases->ShiftAll(by);
  for (auto& [key, s] : c.state.studies) s.next_expiry_check = absl::ZeroDuration();
}

}  // namespace luthier::coordinator
