#include <utility>

#include "server/coordinator/operations/handlers.h"

namespace luthier::coordinator {

void Run(Context& c, ProposalsOp op) {
  const auto found = c.state.studies.find(op.study);
  if (found != c.state.studies.end()) found->second.TakeProposals(std::move(op));
}

}  // namespace luthier::coordinator
