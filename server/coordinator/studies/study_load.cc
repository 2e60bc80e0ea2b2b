// Reads a study from its rows.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/holder.h"
#include "server/coordinator/studies/study.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {

using base::Quote;
using storage::TrialRecord;
using study::TrialState;

namespace {

constexpr int kRowsPage = 1000;

// Returns the states of trials whose whole rows are needed: open ones, those whose holders may have to be told to stop,
// and complete ones if others may start from their models, or if there are several objectives.
std::vector<TrialState> NeededWhole(const study::StudySpec& spec) {
  std::vector<TrialState> states = {TrialState::kPending, TrialState::kRunning, TrialState::kPaused,
                                    TrialState::kPruned, TrialState::kCancelled};
  if (study::WarmStarts(spec) || study::ObjectiveCount(spec) > 1) states.push_back(TrialState::kComplete);
  return states;
}

}  // namespace

absl::StatusOr<Study> Study::Read(Context* context, storage::StudyRecord record, uint64_t generation) {
  Study s(context, std::move(record));
  s.generation_ = generation;
  Finished finished;
  LUTHIER_RETURN_IF_ERROR(s.ReadTrials(&finished));
  if (s.spec_->budget.max_wall) s.timer_ = context->batch.now;
  LUTHIER_RETURN_IF_ERROR(s.ReadSetAside());
  LUTHIER_RETURN_IF_ERROR(s.LoadStopper(context->state.counters.seq));
  s.CountAllFinished(std::move(finished));
  return s;
}

void Study::ReadOpenTrial(TrialSlot& slot, TrialRecord record) {
  const int64_t number = record.trial.number;
  if (slot.state == TrialState::kRunning) {
    running_.insert(number);
    const bool last = study::AttemptsUsed(record.trial) >= spec_->lease.max_attempts;
    const absl::Duration ttl = spec_->lease.ttl * (last ? 10 : 1);
    const absl::Duration deadline = c_->batch.now + ttl;
    c_->leases->Grant(record.grants.back().token, {record_.key, number, ttl, deadline, record.trial.stop_requested,
                                                   record.trial.attempts.back().worker});
    timer_ = std::min(timer_, deadline);
  } else if (slot.state == TrialState::kPaused) {
    paused_.insert(number);
  } else {
    (record.trial.attempts.empty() ? enqueued_ : retries_).insert(number);
    slot.eligible_since = c_->batch.now;
  }
  slot.record = std::make_unique<TrialRecord>(std::move(record));
}

// Checks the grants of a trial whose row is needed, as the rest of the code relies on them.
absl::Status Study::CheckGrants(const storage::TrialSketch& trial) const {
  if (!trial.record) return absl::OkStatus();
  const TrialRecord& record = *trial.record;
  const bool fits = record.grants.size() == record.trial.attempts.size() &&
                    (trial.state != TrialState::kRunning || !record.grants.empty());
  if (fits) return absl::OkStatus();
  return storage::Damaged(record_.key, absl::StrCat("study ", Quote(record_.id), ": trial ", trial.number,
                                                    ", whose grants do not fit its state,"));
}

absl::Status Study::ReadTrial(storage::TrialSketch trial, Finished* finished) {
  if (trial.number != size() + 1) {
    return storage::Damaged(
        record_.key, absl::StrCat("study ", Quote(record_.id), ": trial ", size() + 1, ", of which there is no row,"));
  }
  LUTHIER_RETURN_IF_ERROR(CheckGrants(trial));
  TrialSlot slot;
  slot.state = trial.state;
  ++counts_[static_cast<size_t>(slot.state)];
  asks_stored_ += static_cast<uint64_t>(trial.asks);
  if (!study::IsFinal(slot.state)) {
    ReadOpenTrial(slot, *std::move(trial.record));
  } else {
    if (trial.record && !trial.record->grants.empty()) {
      const std::string& token = trial.record->grants.back().token;
      if (StoppedUnder(*trial.record, token)) c_->leases->End(token, study::Directive::kStop);
    }
    finished->push_back(std::move(trial));
  }
  trials_.push_back(std::move(slot));
  return absl::OkStatus();
}

absl::Status Study::ReadTrials(Finished* finished) {
  const std::vector<TrialState> whole = NeededWhole(*spec_);
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialSketch> page,
                             c_->storage->SketchTrials(record_, whole, after, kRowsPage));
    for (storage::TrialSketch& trial : page) {
      after = trial.number;
      LUTHIER_RETURN_IF_ERROR(ReadTrial(std::move(trial), finished));
    }
    if (page.size() < kRowsPage) return absl::OkStatus();
  }
}

absl::Status Study::ReadSetAside() {
  for (int64_t last = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> page,
                             c_->storage->ListSetAside(record_.key, last, kRowsPage));
    for (const storage::SetAside& entry : page) set_aside_.insert(last = entry.trial);
    if (page.size() < kRowsPage) return absl::OkStatus();
  }
}

absl::Status Study::LoadStopper(uint64_t until) {
  if (stopper_ || (study::IsFinished(record_.state) && running_.empty())) return absl::OkStatus();
  stopper_ = c_->options.stoppers(*spec_);
  if (!stopper_) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<HistoryUpdate> updates,
                           ReadTimeline(c_->storage, record_.key, *spec_, until));
  for (const HistoryUpdate& u : updates) {
    if (u.kind == HistoryUpdate::Kind::kReported) stopper_->ReportPoint(u.trial.number, u.point);
    if (u.kind == HistoryUpdate::Kind::kFinished) TellRuleOfEnd(u.trial);
  }
  return absl::OkStatus();
}

}  // namespace luthier::coordinator
