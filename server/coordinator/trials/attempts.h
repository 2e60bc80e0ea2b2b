#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_ATTEMPTS_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_ATTEMPTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "lib/study/measurement.h"
#include "server/coordinator/batch/context.h"

// Events of an attempt before its trial is final.
namespace luthier::coordinator {

// A grant ended without a result. The trial is PENDING again; FAILED when its attempts are used up; CANCELLED in a
// finished study.
void RetryOrGiveUp(Context& c, StudyState& s, TrialSlot& slot);

// The attempt under way said that it began at `start_step` (absent: it did not say), and reported the steps `first` …
// `last`. Studies without a resource do not count steps.
void NoteTraining(Context& c, StudyState& s, TrialSlot& slot, std::optional<int64_t> start_step, int64_t first,
                  int64_t last);

// Keeps the checkpoint that a holder sent, unless it is empty, with the step that it holds: `step`, or where that was
// not said `reported`, the last step reported; one that is there keeps its step then. Returns true if that changed the
// trial.
bool NoteCheckpoint(const std::string& checkpoint, std::optional<int64_t> step, int64_t reported, study::Trial* trial);

// The attempt reached the target of its lease: it ends, and the trial is PAUSED with `measurement`; in a finished study
// it is pruned. `with_checkpoint`: the holder sent the checkpoint of this step.
void PauseTrial(Context& c, StudyState& s, TrialSlot& slot, study::Measurement measurement, bool with_checkpoint);

// A stopping rule ends the trial under its holder, because of `last`.
void StopTrial(Context& c, StudyState& s, TrialSlot& slot, const study::Measurement& last, const std::string& reason);

// Somebody asked for the end of a RUNNING trial (study::Trial::stop_requested), and its lease is past its deadline: the
// trial is PRUNED with the last value of the attempt, or CANCELLED when there is none. `slot.curve` must be loaded.
void TakeFromHolder(Context& c, StudyState& s, TrialSlot& slot);
// The same when the attempt ended without a result.
void EndAsRequested(Context& c, StudyState& s, TrialSlot& slot);

// A designer continues the PAUSED trial. `promotion` has its ask index and its target.
void PromoteTrial(Context& c, StudyState& s, study::Provenance promotion, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_ATTEMPTS_H_
