#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_

#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Grants trials to asks that wait, in order of arrival, and notes in `demand` what designers are to compute for the
// others. Looks only at asks that are new and at those of studies that changed, in the first place as many as can get
// something: that no other ask could have anything held before, and holds again afterwards.
void Serve(Context& c);

// Answers asks whose deadline has passed with what can be granted now, if with nothing.
void ServeDue(Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_
