#include "server/coordinator/studies/hidden.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;

// Puts what the batch changed of the study before what follows.
void WriteChanges(Context& c, const Study& s) {
  const StudyKey key = s.key();
  storage::WriteBatch& partings = c.batch.partings;
  if (c.batch.touched.count(key) > 0) partings.push_back(storage::PutStudy{s.record()});
  for (const auto& [study, former] : c.batch.former_specs) {
    if (study == key) partings.push_back(storage::PutFormerSpec{key, former});
  }
  for (auto it = c.batch.dirty_trials.lower_bound({key, 0}); it != c.batch.dirty_trials.end() && it->first == key;
       ++it) {
    partings.push_back(storage::PutTrial{key, *s.slot(it->second).record});
  }
  for (const storage::MeasurementRecord& point : c.batch.measurements) {
    if (point.study == key) partings.push_back(storage::PutMeasurement{point});
  }
}

// Erases the project's oldest hidden study if there are more than may be kept.
void KeepFew(Context& c, absl::string_view project) {
  int64_t kept = 0;
  auto oldest = c.state.hidden.end();
  for (auto it = c.state.hidden.begin(); it != c.state.hidden.end(); ++it) {
    if (study::ProjectOf(it->second.id) != project) continue;
    ++kept;
    if (oldest == c.state.hidden.end() || it->second.uptime < oldest->second.uptime) oldest = it;
  }
  if (kept > c.options.limits.deleted_studies) Erase(c, oldest->first);
}

}  // namespace

void WatchHidden(Context& c) {
  c.state.next_purge = absl::InfiniteDuration();
  for (const auto& [key, hidden] : c.state.hidden) {
    c.state.next_purge = std::min(c.state.next_purge, hidden.uptime + c.options.deletion_lifetime);
  }
}

void Hide(Context& c, const Study& s) {
  const StudyKey key = s.key();
  WriteChanges(c, s);
  c.batch.partings.push_back(storage::HideStudy{key, {c.batch.wall, c.batch.uptime}});
  c.batch.deleted.insert(key);
  c.batch.timed = true;
  c.state.hidden[key] = {s.record().id, c.batch.uptime, s.generation() + 1};
  const std::string project(study::ProjectOf(s.record().id));
  RemoveStudy(c.state, key);
  c.leases->DropStudy(key);
  KeepFew(c, project);
  WatchHidden(c);
}

void Erase(Context& c, StudyKey key) {
  c.batch.partings.push_back(storage::DeleteStudy{key});
  c.batch.deleted.insert(key);
  if (c.state.hidden.erase(key) > 0) WatchHidden(c);
}

absl::StatusOr<storage::StudyRecord> FindHidden(const Context& c, const std::string& id) {
  auto newest = c.state.hidden.end();
  for (auto it = c.state.hidden.begin(); it != c.state.hidden.end(); ++it) {
    if (it->second.id != id) continue;
    if (newest == c.state.hidden.end() || it->second.uptime >= newest->second.uptime) newest = it;
  }
  if (newest == c.state.hidden.end()) {
    return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                           absl::StrCat("no study ", base::Quote(id), " was deleted in the last ",
                                        absl::ToInt64Hours(c.options.deletion_lifetime) / 24,
                                        " days; `luthier study list --deleted` shows those that can be brought back"));
  }
  if (c.batch.deleted.count(newest->first) > 0) {
    base::ErrorDetail detail;
    detail.retry_delay = absl::Milliseconds(100);
    return base::MakeError(absl::StatusCode::kUnavailable,
                           absl::StrCat("study ", base::Quote(id), " is just being deleted; send the request again"),
                           std::move(detail));
  }
  LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::StudyRecord> rows, c.storage->ListDeleted(newest->first - 1, 1));
  if (rows.empty() || rows[0].key != newest->first) {
    return absl::InternalError(absl::StrCat("the row of the deleted study ", base::Quote(id), " is missing"));
  }
  if (!rows[0].damage.ok()) return rows[0].damage;
  rows[0].deletion.reset();
  return std::move(rows[0]);
}

absl::StatusOr<Study*> Unhide(Context& c, storage::StudyRecord record) {
  const StudyKey key = record.key;
  LUTHIER_ASSIGN_OR_RETURN(Study read, Study::Read(&c, std::move(record), c.state.hidden.at(key).generation));
  Study& s = AddStudy(c.state, std::move(read));
  c.batch.partings.push_back(storage::UnhideStudy{key, s.record().id});
  c.state.hidden.erase(key);
  WatchHidden(c);
  s.Wake();
  return &s;
}

void EraseOld(Context& c) {
  if (c.batch.uptime < c.state.next_purge) return;
  std::vector<StudyKey> old;
  for (const auto& [key, hidden] : c.state.hidden) {
    if (c.batch.uptime >= hidden.uptime + c.options.deletion_lifetime) old.push_back(key);
  }
  for (const StudyKey key : old) Erase(c, key);
}

}  // namespace luthier::coordinator
