#include "server/coordinator/state/load.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/state/holder.h"
#include "server/coordinator/state/index.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {
namespace {

using base::Quote;
using storage::StudyKey;
using storage::TrialRecord;
using study::TrialState;

constexpr int kStudiesPage = 100;
constexpr int kLoadPage = 1000;

using Finished = std::vector<storage::TrialSketch>;

std::vector<TrialState> OpenStates() {
  return {TrialState::kPending, TrialState::kRunning, TrialState::kPaused};
}

// Returns the states of trials whose whole rows are needed: open ones, those whose holders may have to be told to stop,
// and complete ones if others may start from their models.
std::vector<TrialState> NeededWhole(const study::StudySpec& spec) {
  std::vector<TrialState> states = OpenStates();
  states.push_back(TrialState::kPruned);
  states.push_back(TrialState::kCancelled);
  if (study::WarmStarts(spec)) states.push_back(TrialState::kComplete);
  return states;
}

void LoadOpenTrial(const Source& source, StudyState& s, TrialSlot& slot, TrialRecord record) {
  const int64_t number = record.trial.number;
  if (slot.state == TrialState::kRunning) {
    s.running.insert(number);
    const bool last = study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts;
    const absl::Duration ttl = s.spec->lease.ttl * (last ? 10 : 1);
    const absl::Duration deadline = source.now + ttl;
    source.leases->Grant(record.grants.back().token, {s.record.key, number, ttl, deadline, record.trial.stop_requested,
                                                      record.trial.attempts.back().worker});
    s.timer = std::min(s.timer, deadline);
  } else if (slot.state == TrialState::kPaused) {
    s.paused.insert(number);
  } else {
    (record.trial.attempts.empty() ? s.enqueued : s.retries).insert(number);
    slot.eligible_since = source.now;
  }
  slot.record = std::make_unique<TrialRecord>(std::move(record));
}

// Checks the grants of a trial whose row is needed, as the rest of the code relies on them.
absl::Status CheckGrants(const StudyState& s, const storage::TrialSketch& trial) {
  if (!trial.record) return absl::OkStatus();
  const TrialRecord& record = *trial.record;
  const bool fits = record.grants.size() == record.trial.attempts.size() &&
                    (trial.state != TrialState::kRunning || !record.grants.empty());
  if (fits) return absl::OkStatus();
  return storage::Damaged(s.record.key, absl::StrCat("study ", Quote(s.record.id), ": trial ", trial.number,
                                                     ", whose grants do not fit its state,"));
}

absl::Status LoadTrial(const Source& source, StudyState& s, storage::TrialSketch trial, Finished* finished) {
  if (trial.number != static_cast<int64_t>(s.trials.size()) + 1) {
    return storage::Damaged(s.record.key, absl::StrCat("study ", Quote(s.record.id), ": trial ", s.trials.size() + 1,
                                                       ", of which there is no row,"));
  }
  LUTHIER_RETURN_IF_ERROR(CheckGrants(s, trial));
  TrialSlot slot;
  slot.state = trial.state;
  ++s.counts[static_cast<size_t>(slot.state)];
  s.asks_stored += static_cast<uint64_t>(trial.asks);
  if (!study::IsFinal(slot.state)) {
    LoadOpenTrial(source, s, slot, *std::move(trial.record));
  } else {
    if (trial.record && !trial.record->grants.empty()) {
      const std::string& token = trial.record->grants.back().token;
      if (StoppedUnder(*trial.record, token)) source.leases->End(token, study::Directive::kStop);
    }
    finished->push_back(std::move(trial));
  }
  s.trials.push_back(std::move(slot));
  return absl::OkStatus();
}

absl::Status LoadTrials(const Source& source, StudyState& s, Finished* finished) {
  const std::vector<TrialState> whole = NeededWhole(*s.spec);
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialSketch> page,
                             source.storage->SketchTrials(s.record, whole, after, kLoadPage));
    for (storage::TrialSketch& trial : page) {
      after = trial.number;
      LUTHIER_RETURN_IF_ERROR(LoadTrial(source, s, std::move(trial), finished));
    }
    if (page.size() < kLoadPage) return absl::OkStatus();
  }
}

absl::Status LoadSetAside(const Source& source, StudyState& s) {
  for (int64_t last = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> page,
                             source.storage->ListSetAside(s.record.key, last, kLoadPage));
    for (const storage::SetAside& entry : page) s.set_aside.insert(last = entry.trial);
    if (page.size() < kLoadPage) return absl::OkStatus();
  }
}

// True if nothing more can happen in the study by itself.
absl::StatusOr<bool> IsOver(const Source& source, const storage::StudyRecord& record) {
  if (!study::IsFinished(record.state)) return false;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialRecord> open,
                           source.storage->ListTrials(record.key, {OpenStates()}, 0, 1));
  return open.empty();
}

// Returns the state of the study without its trials.
StudyState Outline(const storage::StudyRecord& record) {
  StudyState s;
  s.record = record;
  s.spec = std::make_shared<const study::StudySpec>(search::Effective(record.spec));
  s.gradient = search::GradientUseOf(*s.spec);
  return s;
}

void PutOff(const storage::StudyRecord& record, CoreState& state) {
  AddStudy(state, Outline(record));
  state.put_off.insert(record.key);
}

// Loads one of the studies that the database lists.
absl::Status LoadListed(const Source& source, const storage::StudyRecord& record, Extent extent, CoreState& state) {
  absl::StatusOr<bool> later = false;
  if (!record.damage.ok()) {
    later = record.damage;
  } else if (extent == Extent::kUnfinished) {
    later = IsOver(source, record);
  }
  if (storage::IsDamage(later.status())) SetAsideDamaged(source, record.key, record.id, later.status(), state);
  LUTHIER_RETURN_IF_ERROR(later.status());
  if (!*later) return LoadStudy(source, record, state);
  PutOff(record, state);
  return absl::OkStatus();
}

// Reads the rows into `s`, which is not in `state` yet.
absl::Status ReadRows(const Source& source, const CoreState& state, StudyState& s) {
  Finished finished;
  LUTHIER_RETURN_IF_ERROR(LoadTrials(source, s, &finished));
  if (s.spec->budget.max_wall) s.timer = source.now;
  LUTHIER_RETURN_IF_ERROR(LoadSetAside(source, s));
  LUTHIER_RETURN_IF_ERROR(LoadStopper(source, state.counters.seq, s));
  CountAllFinished(s, std::move(finished));
  return absl::OkStatus();
}

}  // namespace

void SetAsideDamaged(const Source& source, StudyKey key, const std::string& id, const absl::Status& damage,
                     CoreState& state) {
  RemoveStudy(state, key);
  source.leases->DropStudy(key);
  RefuseWaiting(state, damage, key);
  const bool fresh = state.damaged.insert_or_assign(id, DamagedStudy{key, damage}).second;
  ++state.damaged_version;
  if (fresh) base::LogError("study_damaged", {{"study", id}, {"error", std::string(damage.message())}});
}

absl::Status LoadState(const Source& source, Extent extent, CoreState& state) {
  Counters& counters = state.counters;
  LUTHIER_ASSIGN_OR_RETURN(counters.seq, source.storage->LastSeq());
  LUTHIER_ASSIGN_OR_RETURN(counters.fence, source.storage->LastFence());
  LUTHIER_ASSIGN_OR_RETURN(counters.key, source.storage->LastStudyKey());
  LUTHIER_ASSIGN_OR_RETURN(const absl::Duration uptime, source.storage->LastUptime());
  state.uptime_offset = uptime - source.now;
  state.last_tick = source.now;
  for (std::string after;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page,
                             source.storage->ListStudies(after, kStudiesPage));
    for (const storage::StudyRecord& record : page) {
      const absl::Status status = LoadListed(source, record, extent, state);
      if (!storage::IsDamage(status)) LUTHIER_RETURN_IF_ERROR(status);
    }
    if (page.size() < kStudiesPage) break;
    after = page.back().id;
  }
  return absl::OkStatus();
}

absl::Status LoadStopper(const Source& source, uint64_t until, StudyState& s) {
  if (s.stopper || (study::IsFinished(s.record.state) && s.running.empty())) return absl::OkStatus();
  s.stopper = source.stoppers(*s.spec);
  if (!s.stopper) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<HistoryUpdate> updates,
                           ReadTimeline(source.storage, s.record.key, *s.spec, until));
  for (const HistoryUpdate& u : updates) {
    if (u.kind == HistoryUpdate::Kind::kReported) s.stopper->Report(u.trial.number, u.point.step, u.point.value);
    if (u.kind == HistoryUpdate::Kind::kFinished) s.stopper->Finish(u.trial.number, u.trial.state, u.trial.value);
  }
  return absl::OkStatus();
}

absl::Status LoadStudy(const Source& source, const storage::StudyRecord& record, CoreState& state) {
  StudyState s = Outline(record);
  if (const auto old = state.studies.find(record.key); old != state.studies.end()) {
    s.generation = old->second.generation + 1;
  }
  source.leases->DropStudy(record.key);
  const absl::Status read = ReadRows(source, state, s);
  if (storage::IsDamage(read)) SetAsideDamaged(source, record.key, record.id, read, state);
  LUTHIER_RETURN_IF_ERROR(read);
  RemoveStudy(state, record.key);
  if (state.damaged.erase(record.id) > 0) ++state.damaged_version;
  AddStudy(state, std::move(s));
  return absl::OkStatus();
}

absl::Status LoadPutOff(const Source& source, StudyKey key, CoreState& state) {
  if (state.put_off.count(key) == 0) return absl::OkStatus();
  return LoadStudy(source, storage::StudyRecord(state.studies.at(key).record), state);
}

}  // namespace luthier::coordinator
