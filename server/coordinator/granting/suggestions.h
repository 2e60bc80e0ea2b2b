#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_SUGGESTIONS_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_SUGGESTIONS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "server/coordinator/studies/context.h"

// Suggestions between a designer and the rows.
namespace luthier::coordinator {

// Takes the suggestions that are wanted now: at most one request for each study that `which` accepts. The study counts
// as computing until a ProposalsOp with the request's generation answers it.
std::vector<ProposalRequest> TakeProposalRequests(Context& c, const std::function<bool(storage::StudyKey)>& which);

// Gives asks that have waited for their study's designer beyond the deadline, while other studies wait, too, a point
// that needs no model (proposals/late.h). The designer goes on and serves the next ask. `reproducible` studies, and
// those whose trials pause at rungs, get no such points, which would change the results that a suggestion sees.
void StoreLate(Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_SUGGESTIONS_H_
