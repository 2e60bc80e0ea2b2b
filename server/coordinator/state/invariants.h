#ifndef LUTHIER_SERVER_COORDINATOR_STATE_INVARIANTS_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_INVARIANTS_H_

#include "absl/status/status.h"
#include "server/coordinator/state/core_state.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Recounts everything from the rows in storage and compares with memory: the invariants I1, I2, I5, I7. For tests;
// O(trials). INTERNAL names the study and what differs.
absl::Status CheckInvariants(storage::Storage* storage, const CoreState& state);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_INVARIANTS_H_
