#ifndef LUTHIER_SERVER_STORAGE_DAMAGE_H_
#define LUTHIER_SERVER_STORAGE_DAMAGE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/storage/storage.h"

// Damage: what is stored is not what was written. Calls that need it get DATA_LOSS, and others go on. Every other
// DATA_LOSS of storage means that the outcome of a write or the disk itself is in doubt, and the process must end.
namespace luthier::storage {

// Stands in place of a study for the stored replies to requests, which belong to none.
inline constexpr StudyKey kDamagedRequests = -1;

// Says that `what` ("trial 7") of a study is damaged; 0: it belongs to no study, or to an unknown one.
absl::Status Damaged(StudyKey study, absl::string_view what);
bool IsDamage(const absl::Status& status);
// Returns the study whose damage the status reports, or kDamagedRequests; 0: neither.
StudyKey DamagedStudy(const absl::Status& status);

// Returns the same damage, attributed to `study` if it named none, with the id in front of the message unless that is
// empty. Other errors stay as they are.
absl::Status DamageOf(const absl::Status& damage, StudyKey study, absl::string_view id);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_DAMAGE_H_
