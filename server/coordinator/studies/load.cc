#include "server/coordinator/studies/load.h"

#include <map>
#include <utility>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/studies/hidden.h"
#include "server/coordinator/studies/index.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;
using storage::TrialRecord;
using study::TrialState;

constexpr int kStudiesPage = 100;

std::vector<TrialState> OpenStates() {
  return {TrialState::kPending, TrialState::kRunning, TrialState::kPaused};
}

// True if nothing more can happen in the study by itself.
absl::StatusOr<bool> IsOver(Context& c, const storage::StudyRecord& record) {
  if (!study::IsFinished(record.state)) return false;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialRecord> open,
                           c.storage->ListTrials(record.key, {OpenStates()}, 0, 1));
  return open.empty();
}

void PutOff(Context& c, const storage::StudyRecord& record) {
  AddStudy(c.state, Study::Outline(&c, record));
  c.state.put_off.insert(record.key);
}

// Loads one of the studies that the database lists.
absl::Status LoadListed(Context& c, const storage::StudyRecord& record, Extent extent) {
  absl::StatusOr<bool> later = false;
  if (!record.damage.ok()) {
    later = record.damage;
  } else if (extent == Extent::kUnfinished) {
    later = IsOver(c, record);
  }
  if (storage::IsDamage(later.status())) SetAsideDamaged(c, record.key, record.id, later.status());
  LUTHIER_RETURN_IF_ERROR(later.status());
  if (!*later) return LoadStudy(c, record);
  PutOff(c, record);
  return absl::OkStatus();
}

}  // namespace

void SetAsideDamaged(Context& c, StudyKey key, const std::string& id, const absl::Status& damage) {
  RemoveStudy(c.state, key);
  c.leases->DropStudy(key);
  RefuseWaiting(c.state, damage, key);
  const bool fresh = c.state.damaged.insert_or_assign(id, DamagedStudy{key, damage}).second;
  ++c.state.damaged_version;
  if (fresh) base::LogError("study_damaged", {{"study", id}, {"error", std::string(damage.message())}});
}

absl::Status LoadHidden(Context& c) {
  const std::map<StudyKey, HiddenStudy> before = std::exchange(c.state.hidden, {});
  for (StudyKey after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page, c.storage->ListDeleted(after, kStudiesPage));
    for (const storage::StudyRecord& record : page) {
      after = record.key;
      HiddenStudy& hidden = c.state.hidden[record.key];
      hidden.id = record.id;
      hidden.generation = c.state.counters.seq + 1;  // No request for suggestions under way has it.
      // The time of a damaged row is unknown.
      hidden.uptime = record.deletion ? record.deletion->uptime : c.batch.now + c.state.uptime_offset;
      if (const auto known = before.find(record.key); known != before.end()) hidden = known->second;
    }
    if (page.size() < kStudiesPage) break;
  }
  WatchHidden(c);
  return absl::OkStatus();
}

absl::Status LoadState(Context& c, Extent extent) {
  Counters& counters = c.state.counters;
  LUTHIER_ASSIGN_OR_RETURN(counters.seq, c.storage->LastSeq());
  LUTHIER_ASSIGN_OR_RETURN(counters.fence, c.storage->LastFence());
  LUTHIER_ASSIGN_OR_RETURN(counters.key, c.storage->LastStudyKey());
  LUTHIER_ASSIGN_OR_RETURN(const absl::Duration uptime, c.storage->LastUptime());
  c.state.uptime_offset = uptime - c.batch.now;
  c.state.last_tick = c.batch.now;
  LUTHIER_RETURN_IF_ERROR(LoadHidden(c));
  for (std::string after;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page, c.storage->ListStudies(after, kStudiesPage));
    for (const storage::StudyRecord& record : page) {
      const absl::Status status = LoadListed(c, record, extent);
      if (!storage::IsDamage(status)) LUTHIER_RETURN_IF_ERROR(status);
    }
    if (page.size() < kStudiesPage) break;
    after = page.back().id;
  }
  return absl::OkStatus();
}

absl::Status LoadStudy(Context& c, const storage::StudyRecord& record) {
  const auto old = c.state.studies.find(record.key);
  c.leases->DropStudy(record.key);
  absl::StatusOr<Study> read = Study::Read(&c, record, old == c.state.studies.end() ? 0 : old->second.generation() + 1);
  if (storage::IsDamage(read.status())) SetAsideDamaged(c, record.key, record.id, read.status());
  LUTHIER_RETURN_IF_ERROR(read.status());
  RemoveStudy(c.state, record.key);
  if (c.state.damaged.erase(record.id) > 0) ++c.state.damaged_version;
  AddStudy(c.state, *std::move(read));
  return absl::OkStatus();
}

absl::Status LoadPutOff(Context& c, StudyKey key) {
  if (c.state.put_off.count(key) == 0) return absl::OkStatus();
  return LoadStudy(c, storage::StudyRecord(c.state.studies.at(key).record()));
}

}  // namespace luthier::coordinator
