#include "server/coordinator/granting/suggestions.h"

#include <utility>

namespace luthier::coordinator {

void StoreLate(Context& c) {
  // A study that computes alone never gets a late point, since nobody else waits.
  while (c.state.computing.size() >= 2) {
    const auto [since, key] = *c.state.computing.begin();
    if (c.batch.now - since < c.options.suggest_deadline) return;
    c.state.studies.at(key).StoreLate();
  }
}

std::vector<ProposalRequest> TakeProposalRequests(Context& c, const std::function<bool(storage::StudyKey)>& which) {
  CoreState& state = c.state;
  std::vector<ProposalRequest> requests;
  for (auto it = state.wanting.begin(); it != state.wanting.end();) {
    Study& s = state.studies.at(*it);
    ++state.steps;
    const bool missing = s.Missing() > 0;
    if (missing && !which(*it)) {
      ++it;
      continue;
    }
    it = state.wanting.erase(it);
    if (missing) requests.push_back(s.Request(kMaxProposals));
  }
  return requests;
}

}  // namespace luthier::coordinator
