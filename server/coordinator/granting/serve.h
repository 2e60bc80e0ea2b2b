#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_

#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Grants trials to asks that wait, in order of arrival, and notes in `demand` what designers are to compute for the
// others. `answer_due`: an ask whose deadline has passed is answered with what can be granted now, if with nothing.
void Serve(Context& c, bool answer_due);

// As Serve with `answer_due`, if some ask's deadline has passed.
void ServeDue(Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_SERVE_H_
