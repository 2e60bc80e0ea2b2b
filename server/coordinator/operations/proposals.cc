#include <utility>

#include "lib/base/log.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/state/index.h"

namespace luthier::coordinator {

void Run(Context& c, ProposalsOp op) {
  const auto found = c.state.studies.find(op.study);
  if (found == c.state.studies.end()) return;
  StudyState& s = found->second;
  if (op.generation != s.generation || op.first_ask_index != s.asks_stored + s.ready.size()) return;
  Wake(c.state, op.study);
  SetComputing(c.state, s, op.more ? c.batch.now : absl::InfiniteDuration());
  s.history = op.history;
  for (search::Suggestion& suggestion : op.suggestions) s.ready.emplace_back(op.prefix_seq, std::move(suggestion));
  if (op.exhausted) s.exhausted = true;
  // If a trial finished or paused while the designer computed, the designer must be asked again.
  if (!op.blocked || s.unblocked > op.prefix_seq) return;
  s.blocked = true;
  if (AnyOpenBesidesPaused(s) || !s.ready.empty()) return;
  base::LogError("designer_waits_for_nothing", {{"study", s.record.id}});
  s.exhausted = true;
}

}  // namespace luthier::coordinator
