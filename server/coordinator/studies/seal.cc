#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "server/coordinator/studies/commit.h"
#include "server/coordinator/studies/load.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {
namespace {

const Study* StudyOf(const Context& c, storage::StudyKey key) {
  const auto found = c.state.studies.find(key);
  return found == c.state.studies.end() ? nullptr : &found->second;  // Null: deleted in this batch.
}

// Rows of final trials stay in memory only as long as the batch that needs them.
void DropFinalRows(Context& c) {
  c.batch.pinned_trials.insert(c.batch.dirty_trials.begin(), c.batch.dirty_trials.end());
  for (const auto& [key, number] : c.batch.pinned_trials) {
    const auto found = c.state.studies.find(key);
    if (found != c.state.studies.end() && number <= found->second.size()) found->second.DropRow(number);
  }
}

// Requests are forgotten `request_lifetime` of uptime after their answer, but not while they are the only way to the
// lease of an open trial.
void KeepRequestsOfOpenTrials(Context& c) {
  for (const auto& [key, s] : c.state.studies) {
    for (const int64_t number : s.running()) {
      const std::string& id = s.slot(number).record->grants.back().request_id;
      c.requests.Keep(id, c.batch.uptime, c.batch.uptime - c.options.request_lifetime / 2);
    }
  }
}

void Publish(Context& c) {
  for (const std::string& token : c.batch.finishing_leases) c.leases->AskToFinish(token);
  for (const auto& [token, directive] : c.batch.ending_leases) c.leases->End(token, directive);
  std::move(c.batch.events.begin(), c.batch.events.end(), std::back_inserter(c.outbox.events));
  std::move(c.batch.updates.begin(), c.batch.updates.end(), std::back_inserter(c.outbox.updates));
  c.outbox.invalidated.insert(c.outbox.invalidated.end(), c.batch.deleted.begin(), c.batch.deleted.end());
}

// Sets aside the study that the batch could not write because of damage.
void SetAside(Context& c, const absl::Status& damage) {
  const storage::StudyKey key = storage::DamagedStudy(damage);
  std::string id;
  if (const Study* s = StudyOf(c, key)) id = s->record().id;
  if (const auto touched = c.batch.touched.find(key); id.empty() && touched != c.batch.touched.end()) {
    id = touched->second;
  }
  if (!id.empty()) SetAsideDamaged(c, key, id, damage);
}

absl::Status SendAgain(const absl::Status& damage) {
  base::ErrorDetail detail;
  detail.retry_delay = absl::Milliseconds(100);
  return base::MakeError(absl::StatusCode::kUnavailable,
                         absl::StrCat("nothing was stored, send the same request again: another one was about damaged "
                                      "data: ",
                                      damage.message()),
                         std::move(detail));
}

}  // namespace

const storage::WriteBatch& Seal(Context& c) {
  const Batch& batch = c.batch;
  storage::WriteBatch& sealed = c.batch.sealed;
  const bool forgets = batch.now >= c.state.next_forget;
  if (forgets) {
    c.state.next_forget = batch.now + c.options.request_lifetime / 24;
    KeepRequestsOfOpenTrials(c);
  }
  sealed = batch.partings;
  for (const auto& [key, id] : batch.touched) {
    if (const Study* s = StudyOf(c, key)) sealed.push_back(storage::PutStudy{s->record()});
  }
  for (const auto& [key, former] : batch.former_specs) {
    if (StudyOf(c, key) != nullptr) sealed.push_back(storage::PutFormerSpec{key, former});
  }
  for (const auto& [key, number] : batch.dirty_trials) {
    if (const Study* s = StudyOf(c, key)) sealed.push_back(storage::PutTrial{key, *s->slot(number).record});
  }
  for (const storage::MeasurementRecord& point : batch.measurements) {
    if (StudyOf(c, point.study) != nullptr) sealed.push_back(storage::PutMeasurement{point});
  }
  for (const auto& [id, request] : c.requests.pending()) sealed.push_back(storage::PutRequest{request});
  for (const auto& [id, request] : c.requests.changed()) sealed.push_back(storage::ChangeRequest{request});
  if (forgets) sealed.push_back(storage::ForgetRequestsBefore{batch.uptime - c.options.request_lifetime});
  for (const storage::Event& event : batch.events) sealed.push_back(storage::AppendEvent{event});
  const uint64_t fence = c.state.counters.fence;
  if (fence != batch.at_begin.fence) sealed.push_back(storage::SetFence{fence});
  if (!sealed.empty() || (batch.timed && batch.now >= c.state.next_uptime)) {
    c.state.next_uptime = batch.now + absl::Minutes(1);
    sealed.push_back(storage::SetUptime{batch.uptime});
  }
  return sealed;
}

absl::Status EndBatch(Context& c, const absl::Status& committed) {
  c.requests.EndBatch();
  absl::Status restored;
  if (committed.ok())
    Publish(c);
  else
    restored = RollBack(c, committed);
  if (storage::IsDamage(committed)) SetAside(c, committed);
  DropFinalRows(c);
  const std::vector<std::function<void(const absl::Status&)>> answers = std::move(c.batch.answers);
  const absl::Duration now = c.batch.now;
  const absl::Time wall = c.batch.wall;
  const absl::Duration uptime = c.batch.uptime;
  c.batch = Batch();
  c.batch.now = now;
  c.batch.wall = wall;
  c.batch.uptime = uptime;
  absl::Status outcome = committed;
  // Only one of the operations met the damage, and its caller learns of it when it sends the operation again.
  if (storage::IsDamage(outcome) && answers.size() > 1) outcome = SendAgain(outcome);
  for (const auto& answer : answers) answer(outcome);
  return restored;
}

}  // namespace luthier::coordinator
