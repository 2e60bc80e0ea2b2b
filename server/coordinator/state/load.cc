#include "server/coordinator/state/load.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "server/coordinator/mutants.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/state/holder.h"
#include "server/coordinator/state/index.h"

namespace luthier::coordinator {
namespace {

using base::Quote;
using storage::TrialRecord;
using study::TrialState;

constexpr int kStudiesPage = 100;
constexpr int kPage = 1000;

using Finished = std::vector<storage::TrialSketch>;

std::vector<TrialState> OpenStates() {
  return {TrialState::kPending, TrialState::kRunning, TrialState::kPaused};
}

// Trials whose whole rows are needed: open ones, those whose holders may have to be told to stop, and where others may
// start from them.
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
    const absl::Duration deadline = Mutated(Mutant::kNoFreshTtl) ? source.now : source.now + ttl;
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

absl::Status LoadTrial(const Source& source, StudyState& s, storage::TrialSketch trial, Finished* finished) {
  if (trial.number != static_cast<int64_t>(s.trials.size()) + 1) {
    return absl::DataLossError(
        absl::StrCat("study ", Quote(s.record.id), ": trial ", s.trials.size() + 1, " is missing"));
  }
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
                             source.storage->SketchTrials(s.record, whole, after, kPage));
    for (storage::TrialSketch& trial : page) {
      after = trial.number;
      LUTHIER_RETURN_IF_ERROR(LoadTrial(source, s, std::move(trial), finished));
    }
    if (page.size() < kPage) return absl::OkStatus();
  }
}

absl::Status LoadSetAside(const Source& source, StudyState& s) {
  for (int64_t last = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> page,
                             source.storage->ListSetAside(s.record.key, last, kPage));
    for (const storage::SetAside& entry : page) s.set_aside.insert(last = entry.trial);
    if (page.size() < kPage) return absl::OkStatus();
  }
}

// Whether nothing can happen in the study by itself any more.
absl::StatusOr<bool> IsOver(const Source& source, const storage::StudyRecord& record) {
  if (!study::IsFinished(record.state)) return false;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialRecord> open,
                           source.storage->ListTrials(record.key, {OpenStates()}, 0, 1));
  return open.empty();
}

// What is known of the study without its trials.
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

}  // namespace

absl::Status LoadState(const Source& source, Extent extent, CoreState& state) {
  Counters& counters = state.counters;
  LUTHIER_ASSIGN_OR_RETURN(counters.seq, source.storage->LastSeq());
  LUTHIER_ASSIGN_OR_RETURN(counters.fence, source.storage->LastFence());
  if (Mutated(Mutant::kFenceResetAtStart)) counters.fence = 0;
  LUTHIER_ASSIGN_OR_RETURN(counters.key, source.storage->LastStudyKey());
  LUTHIER_ASSIGN_OR_RETURN(const absl::Duration uptime, source.storage->LastUptime());
  state.uptime_offset = uptime - source.now;
  state.last_tick = source.now;
  for (std::string after;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page,
                             source.storage->ListStudies(after, kStudiesPage));
    for (const storage::StudyRecord& record : page) {
      bool later = false;
      if (extent == Extent::kUnfinished) {
        LUTHIER_ASSIGN_OR_RETURN(later, IsOver(source, record));
      }
      if (later) {
        PutOff(record, state);
      } else {
        LUTHIER_RETURN_IF_ERROR(LoadStudy(source, record, state));
      }
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
  Finished finished;
  LUTHIER_RETURN_IF_ERROR(LoadTrials(source, s, &finished));
  if (s.spec->budget.max_wall) s.timer = source.now;
  LUTHIER_RETURN_IF_ERROR(LoadSetAside(source, s));
  LUTHIER_RETURN_IF_ERROR(LoadStopper(source, state.counters.seq, s));
  CountAllFinished(s, std::move(finished));
  RemoveStudy(state, record.key);
  AddStudy(state, std::move(s));
  return absl::OkStatus();
}

absl::Status LoadPutOff(const Source& source, storage::StudyKey key, CoreState& state) {
  if (state.put_off.count(key) == 0) return absl::OkStatus();
  return LoadStudy(source, storage::StudyRecord(state.studies.at(key).record), state);
}

}  // namespace luthier::coordinator
