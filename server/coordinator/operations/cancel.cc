#include <utility>

#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/holder.h"

namespace luthier::coordinator {

void Run(Context& c, CancelTrialOp op) {
  const absl::StatusOr<FoundTrial> found = FindTrialToChange(c, op.id, op.number, op.by);
  if (!found.ok()) return Answer<TrialReply>(c, op.done, found.status());
  Study& s = *found->study;
  TrialSlot& slot = *found->slot;
  const storage::TrialRecord& record = *slot.record;
  // Cancelling again has no further effect, so it may be repeated.
  if (slot.state == study::TrialState::kCancelled) {
    return Answer<TrialReply>(c, op.done, TrialReply{record.trial, record.finish_seq});
  }
  if (study::IsFinal(slot.state)) return Answer<TrialReply>(c, op.done, AlreadyFinal(record.trial));
  s.Cancel(slot, "cancelled by a user", op.actor);
  TrialReply reply{record.trial, c.state.counters.seq};
  s.CompleteWhenDone();
  Answer<TrialReply>(c, op.done, std::move(reply));
}

}  // namespace luthier::coordinator
