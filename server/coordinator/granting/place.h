#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_PLACE_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_PLACE_H_

#include "absl/status/status.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Puts the study at its place in its pool. `fresh`: true if it changed since asks were looked at.
void Place(Context& c, StudyState& s, bool fresh);

// Compares the indexes of studies and asks with the studies and asks. For tests; O(studies + asks). INTERNAL says what
// differs.
absl::Status CheckIndexes(const Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_PLACE_H_
