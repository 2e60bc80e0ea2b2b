#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_ATTEMPTS_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_ATTEMPTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "lib/study/measurement.h"
#include "server/coordinator/batch/context.h"

// Events of an attempt before its trial is final.
namespace luthier::coordinator {

// To be called when a grant ended without a result. The trial becomes PENDING; FAILED if its attempts are used up;
// CANCELLED in a finished study.
void RetryOrGiveUp(Context& c, StudyState& s, TrialSlot& slot);

// Notes that the attempt under way began at `start_step` (absent: it did not say) and reported the steps `first` …
// `last`. Studies without a resource do not count steps.
void NoteTraining(Context& c, StudyState& s, TrialSlot& slot, std::optional<int64_t> start_step, int64_t first,
                  int64_t last);

// Keeps the checkpoint that a holder sent, unless it is empty, with the step at which it was saved: `step`, or, if that
// was not said, the known step of the same checkpoint, else `reported`, the last step reported. Returns true if that
// changed the trial.
bool NoteCheckpoint(const std::string& checkpoint, std::optional<int64_t> step, int64_t reported, study::Trial* trial);

// Ends the attempt, which reached the target of its lease: the trial becomes PAUSED with `measurement`, in a finished
// study PRUNED. `with_checkpoint`: true if the holder sent the checkpoint of this step.
void PauseTrial(Context& c, StudyState& s, TrialSlot& slot, study::Measurement measurement, bool with_checkpoint);

// Ends the trial by a stopping rule, because of `last`, while a worker holds it.
void StopTrial(Context& c, StudyState& s, TrialSlot& slot, const study::Measurement& last, const std::string& reason);

// Ends a RUNNING trial whose end somebody asked for (study::Trial::stop_requested), when its lease is past its
// deadline: it is PRUNED with the last value of the attempt, or CANCELLED without one. `slot.curve` must be loaded.
void TakeFromHolder(Context& c, StudyState& s, TrialSlot& slot);
// Ends such a trial when its attempt ended without a result.
void EndAsRequested(Context& c, StudyState& s, TrialSlot& slot);

// Lets a designer continue the PAUSED trial. `promotion` has its ask index and its target.
void PromoteTrial(Context& c, StudyState& s, study::Provenance promotion, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_ATTEMPTS_H_
