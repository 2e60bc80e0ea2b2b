#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_ENDING_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_ENDING_H_

#include <string>

#include "lib/study/trial.h"
#include "server/coordinator/batch/context.h"

// Ways in which a trial becomes final.
namespace luthier::coordinator {

void EndAttempt(Context& c, storage::TrialRecord& record, study::AttemptOutcome outcome);

// To be called after Move and after the event that made the trial final: completes the row, tells designers, stopping
// rules and counts.
void Finalize(Context& c, StudyState& s, TrialSlot& slot);

// Cancels a trial that has not ended. The worker that holds it is told to stop.
void CancelTrial(Context& c, StudyState& s, TrialSlot& slot, const std::string& why);

// Prunes a PAUSED trial: its last value stands. `why`: "the study ended".
void PrunePaused(Context& c, StudyState& s, TrialSlot& slot, const std::string& why);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_ENDING_H_
