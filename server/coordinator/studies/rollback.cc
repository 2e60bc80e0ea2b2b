#include <string>

#include "lib/base/status_macros.h"
#include "server/coordinator/studies/commit.h"
#include "server/coordinator/studies/index.h"
#include "server/coordinator/studies/load.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;

// Reads the study again. It may never have been stored, or another study may be stored under its name.
absl::Status Restore(Context& c, StudyKey key, const std::string& id, const absl::Status& cause) {
  c.outbox.invalidated.push_back(key);
  const absl::StatusOr<storage::StudyRecord> record = c.storage->GetStudy(id);
  if (record.ok() && record->key == key) {
    const absl::Status status = LoadStudy(c, *record);
    return storage::IsDamage(status) ? absl::OkStatus() : status;
  }
  if (storage::IsDamage(record.status())) {
    SetAsideDamaged(c, key, id, record.status());
    return absl::OkStatus();
  }
  if (!record.ok() && !absl::IsNotFound(record.status())) return record.status();
  RemoveStudy(c.state, key);
  c.leases->DropStudy(key);
  RefuseWaiting(c.state, cause, key);
  return absl::OkStatus();
}

}  // namespace

absl::Status RollBack(Context& c, const absl::Status& cause) {
  c.state.counters = c.batch.at_begin;
  // The newest comes first: a deleted study comes back once the one that took its name is gone.
  for (auto it = c.batch.touched.rbegin(); it != c.batch.touched.rend(); ++it) {
    LUTHIER_RETURN_IF_ERROR(Restore(c, it->first, it->second, cause));
  }
  return c.batch.partings.empty() ? absl::OkStatus() : LoadHidden(c);
}

}  // namespace luthier::coordinator
