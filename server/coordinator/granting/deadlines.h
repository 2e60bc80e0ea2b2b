#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_DEADLINES_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_DEADLINES_H_

#include "absl/time/time.h"
#include "server/coordinator/studies/context.h"

namespace luthier::coordinator {

// Looks at studies whose timer has come, at the beginning of a batch. A running trial whose lease ran out may be
// granted to another worker; one without further attempts, or of a finished study, ends.
void CheckDeadlines(Context& c);

// Extends every lease by `by`, for a time in which none could be renewed or stored.
void ExtendLeases(Context& c, absl::Duration by);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_DEADLINES_H_
