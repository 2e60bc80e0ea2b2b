#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_LOAD_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_LOAD_H_

#include <string>

#include "absl/status/status.h"
#include "server/coordinator/studies/context.h"
#include "server/storage/storage.h"

// Builds memory from rows. Errors as Storage. A study whose rows are damaged or do not fit each other is set aside
// (CoreState::damaged), and the others are read.
namespace luthier::coordinator {

// Says how much is read at once. kUnfinished puts off the trials of finished studies whose trials have all ended.
// Callers that need them call LoadPutOff; until then the holders of trials that were stopped hear LOST instead of STOP.
enum class Extent { kAll, kUnfinished };

// Reads into an empty Context::state. Leases of RUNNING trials get a full TTL from now.
absl::Status LoadState(Context& c, Extent extent);

// Reads the trials of the study, if they were put off. Returns the damage for which the study was set aside, too.
absl::Status LoadPutOff(Context& c, storage::StudyKey key);

// Reads which studies are hidden (CoreState::hidden).
absl::Status LoadHidden(Context& c);

// Takes the study out of all lists but `damaged`, and logs that. Asks that wait for it alone are refused.
void SetAsideDamaged(Context& c, storage::StudyKey key, const std::string& id, const absl::Status& damage);

// Reads one study, in place of what memory holds of it. Its `generation` goes up, so that suggestions under way are not
// taken for the study as it is now. Damage (storage/damage.h) is returned, and the study is set aside.
absl::Status LoadStudy(Context& c, const storage::StudyRecord& record);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_LOAD_H_
