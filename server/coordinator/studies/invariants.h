#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_INVARIANTS_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_INVARIANTS_H_

#include "absl/status/status.h"
#include "server/coordinator/studies/context.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Recounts everything from the rows in storage and compares with memory: the invariants I1, I2, I5, I7. For tests;
// O(trials). INTERNAL names the study and what differs.
absl::Status CheckInvariants(storage::Storage* storage, const CoreState& state);

// Compares the indexes of studies and asks with the studies and asks. For tests; O(studies + asks). INTERNAL says what
// differs.
absl::Status CheckIndexes(const Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_INVARIANTS_H_
