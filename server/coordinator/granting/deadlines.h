#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_DEADLINES_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_DEADLINES_H_

#include "absl/time/time.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// At the beginning of a batch, of studies whose timer has come: a running trial whose lease ran out may be granted to
// another; one without further attempts, or of a finished study, ends.
void CheckDeadlines(Context& c);

// Gives every lease so much more time: for a time in which it could not have been renewed or stored.
void ExtendLeases(Context& c, absl::Duration by);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_DEADLINES_H_
