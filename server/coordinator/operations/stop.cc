#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/find.h"

// A user asks a trial to end with the value that it has.
namespace luthier::coordinator {
namespace {

using study::TrialState;

absl::Status NotGranted(const study::Trial& trial) {
  return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kNotGranted,
                         absl::StrCat("trial ", trial.number,
                                      " is PENDING: no worker has it, so there is no result to "
                                      "end it with; cancel it instead"));
}

absl::StatusOr<TrialReply> Stop(Context& c, const StopTrialOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(const FoundTrial found, FindTrialToChange(c, op.id, op.number, op.by));
  Study& s = *found.study;
  TrialSlot& slot = *found.slot;
  storage::TrialRecord& record = *slot.record;
  if (study::IsFinal(slot.state)) return TrialReply{record.trial, record.finish_seq};
  if (slot.state == TrialState::kPending) return NotGranted(record.trial);
  if (record.trial.stop_requested) return TrialReply{record.trial, record.trial.update_seq};
  if (slot.state == TrialState::kRunning) LUTHIER_RETURN_IF_ERROR(s.LoadCurve(slot));
  record.trial.stop_requested = true;
  s.AddEvent(storage::EventType::kTrialStopRequested, &record).actor = op.actor;
  s.MarkDirty(record);
  if (slot.state == TrialState::kPaused) {
    s.DropReady();  // A suggestion may continue this trial.
    s.PrunePaused(slot, "its end was asked for");
    s.ApplyStoppingRules(record.trial);
  } else if (c.leases->Expired(record.grants.back().token, c.batch.now)) {
    s.TakeFromHolder(slot);
  } else {
    c.batch.finishing_leases.push_back(record.grants.back().token);
  }
  return TrialReply{record.trial, c.state.counters.seq};
}

}  // namespace

void Run(Context& c, StopTrialOp op) {
  Answer<TrialReply>(c, op.done, Stop(c, op));
}

}  // namespace luthier::coordinator
