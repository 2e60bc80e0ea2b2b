#include "server/coordinator/studies/holder.h"

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::coordinator {

using base::MakeError;
using storage::TrialRecord;
using study::TrialState;

absl::Status CheckHolder(const TrialSlot& slot, const std::string& token) {
  const TrialRecord& record = *slot.record;
  if (study::IsFinal(slot.state)) return AlreadyFinal(record.trial);
  if (slot.state == TrialState::kRunning && record.grants.back().token == token) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, base::reason::kLeaseLost,
      absl::StrCat("trial ", record.trial.number, " is no longer leased by this token; drop it and ask for another"));
}

absl::Status AlreadyFinal(const study::Trial& trial) {
  return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialFinal,
                   absl::StrCat("trial ", trial.number, " is ", study::TrialStateName(trial.state), " already"));
}

bool StoppedUnder(const TrialRecord& record, const std::string& token) {
  if (record.grants.empty() || record.grants.back().token != token) return false;
  const study::AttemptOutcome outcome = record.trial.attempts.back().outcome;
  if (record.trial.state == TrialState::kCancelled) return outcome == study::AttemptOutcome::kCancelled;
  // The trial was pruned, and not by its holder.
  return record.trial.state == TrialState::kPruned && outcome == study::AttemptOutcome::kPruned &&
         record.grants.back().digest.empty();
}

}  // namespace luthier::coordinator
