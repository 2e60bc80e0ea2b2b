#ifndef LUTHIER_SERVER_COORDINATOR_STATE_LOAD_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_LOAD_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/leases.h"
#include "server/coordinator/state/core_state.h"
#include "server/storage/storage.h"

// Builds memory from rows. Errors as Storage. A study whose rows are damaged or do not fit each other is set aside
// (CoreState::damaged), and the others are read.
namespace luthier::coordinator {

// Makes the rule that stops trials of a study early; null: none does.
using StopperFactory = std::function<std::unique_ptr<stopping::Stopper>(const study::StudySpec&)>;

// Inputs of a load. Leases of RUNNING trials get a full TTL from `now`.
struct Source {
  storage::Storage* storage = nullptr;
  LeaseTable* leases = nullptr;
  StopperFactory stoppers;
  absl::Duration now;  // Clock::Monotonic().
};

// Says how much is read at once. kUnfinished puts off the trials of finished studies whose trials have all ended.
// Callers that need them call LoadPutOff; until then the holders of trials that were stopped hear LOST instead of STOP.
enum class Extent { kAll, kUnfinished };

// Reads into an empty `state`.
absl::Status LoadState(const Source& source, Extent extent, CoreState& state);

// Reads the trials of the study, if they were put off. Returns the damage for which the study was set aside, too.
absl::Status LoadPutOff(const Source& source, storage::StudyKey key, CoreState& state);

// Takes the study out of all lists but `damaged`, and logs that. Asks that wait for it alone are refused.
void SetAsideDamaged(const Source& source, storage::StudyKey key, const std::string& id, const absl::Status& damage,
                     CoreState& state);

// Reads one study, in place of what `state` holds of it. Its `generation` goes up, so that suggestions under way are
// not taken for the study as it is now. Damage (storage/damage.h) is returned, and the study is set aside.
absl::Status LoadStudy(const Source& source, const storage::StudyRecord& record, CoreState& state);

// Makes the rule that stops trials early, with what it must know up to the event `until`, if the study may need it and
// has none.
absl::Status LoadStopper(const Source& source, uint64_t until, StudyState& s);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_LOAD_H_
