#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_

#include "server/coordinator/studies/context.h"

namespace luthier::coordinator {

// Grants trials to waiting asks, in order of arrival, and notes in `demand` what designers are to compute for the
// others. Looks only at new asks and at those of changed studies, and first at as many of these as can be granted
// something. Invariant, before and after: no other waiting ask could be granted anything that is held.
void Serve(Context& c);

// Answers asks whose deadline has passed with the trials that can be granted now, if any.
void ServeDue(Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_
