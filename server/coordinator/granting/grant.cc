#include "server/coordinator/granting/grant.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/state/index.h"
#include "server/coordinator/trials/ending.h"

namespace luthier::coordinator {
namespace {

using storage::EventType;
using storage::TrialRecord;
using study::TrialState;

// Appends the attempt and its grant, with a token of its own, to the row.
void BeginAttempt(Context& c, StudyState& s, TrialRecord& record, const std::string& worker,
                  const std::string& request_id) {
  study::Attempt attempt;
  attempt.number = static_cast<int32_t>(record.trial.attempts.size()) + 1;
  attempt.worker = worker;
  attempt.start = c.batch.wall;
  if (s.spec->resource && !record.trial.checkpoint.empty()) attempt.start_step = record.trial.checkpoint_step;
  record.trial.attempts.push_back(std::move(attempt));
  const uint64_t fence = ++c.state.counters.fence;
  base::RandomStream random(c.options.token_seed, "lease_token", fence);
  storage::GrantRecord grant;
  grant.token = MakeToken(fence, random.NextU64());
  grant.request_id = request_id;
  grant.uptime = c.batch.uptime;
  record.grants.push_back(std::move(grant));
  s.last_turn = fence;
}

}  // namespace

int64_t StoreTrial(Context& c, StudyState& s, study::Trial trial, EventType type) {
  const int64_t number = static_cast<int64_t>(s.trials.size()) + 1;
  trial.number = number;
  trial.state = TrialState::kPending;
  trial.create_time = c.batch.wall;
  TrialSlot slot;
  slot.record = std::make_unique<TrialRecord>();
  slot.record->trial = std::move(trial);
  slot.eligible_since = c.batch.now;
  TrialRecord& record = *slot.record;
  s.trials.push_back(std::move(slot));
  CountNew(c.state, s);
  record.create_seq = AddEvent(c, s, type, &record).seq;
  MarkDirty(c, s, record);
  PushUpdate(c, s, HistoryUpdate::Kind::kStored, number, [&](HistoryUpdate& update) {
    update.trial = ToHistoryTrial(record.trial, s.spec->metric);
    update.trial.parameters = study::SuggestedParameters(record.trial);
  });
  return number;
}

Grant GrantTrial(Context& c, StudyState& s, int64_t number, const std::string& worker, const std::string& request_id) {
  TrialSlot& slot = s.trials[number - 1];
  TrialRecord& record = *slot.record;
  if (slot.state == TrialState::kRunning) {
    EndLease(c, record.grants.back().token, study::Directive::kLost);
    EndAttempt(c, record, study::AttemptOutcome::kExpired);
  }
  Move(c.state, s, slot, study::TrialEvent::kGrant);
  // Chosen once, so that all attempts have the same result.
  if (record.trial.attempts.empty()) {
    record.trial.provenance.warm_start = study::NearestSource(s.models, record.trial.parameters);
  }
  BeginAttempt(c, s, record, worker, request_id);
  AddHeld(c.state, s, worker, 1);
  slot.curve = std::make_unique<Curve>();
  storage::Event& granted = AddEvent(c, s, EventType::kTrialGranted, &record);
  granted.actor = worker;
  if (record.trial.provenance.warm_start > 0) {
    granted.detail = absl::StrCat("to start from the model of trial ", record.trial.provenance.warm_start);
  }
  MarkDirty(c, s, record);
  // The last attempt gets a longer lease: its holder may only be behind a long partition.
  const bool last = study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts;
  const absl::Duration ttl = s.spec->lease.ttl * (last ? 10 : 1);
  const std::string& token = record.grants.back().token;
  c.leases->Grant(token, {s.record.key, number, ttl, c.batch.now + ttl, false, worker});
  SetTimer(c.state, s, c.batch.now + ttl);
  return DescribeGrant(s.record.id, s.spec, s.gradient, record.trial, token);
}

Grant DescribeGrant(const std::string& study_id, std::shared_ptr<const study::StudySpec> spec, study::GradientUse use,
                    study::Trial trial, const std::string& token) {
  Grant grant;
  grant.study_id = study_id;
  grant.token = token;
  grant.attempt = static_cast<int32_t>(trial.attempts.size());
  grant.resume_checkpoint = trial.checkpoint;
  grant.target_step = trial.target();
  grant.resume_step = trial.checkpoint_step;
  grant.gradient = search::GradientUseOf(use, trial.provenance);
  grant.spec = std::move(spec);
  grant.trial = std::move(trial);
  return grant;
}

}  // namespace luthier::coordinator
