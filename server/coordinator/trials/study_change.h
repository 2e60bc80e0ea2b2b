#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_STUDY_CHANGE_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_STUDY_CHANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/batch/context.h"

// Changes of a study that goes on.
namespace luthier::coordinator {

// Gives the study the spec `next`, with one STUDY_UPDATED event. The spec that designers used so far is kept, and they
// begin anew.
void ChangeSpec(Context& c, StudyState& s, study::StudySpec next, const std::string& actor);
// Adds parameters that a trial declares to the study's space, with one PARAMETERS_DECLARED event.
void GrowSpace(Context& c, StudyState& s, study::SearchSpace space, TrialSlot& slot);

// Raises max_trials by `trials`, which are then stored in the same batch. RESOURCE_EXHAUSTED LIMIT_EXCEEDED beyond
// study::kMaxTrials.
absl::Status AddRoom(Context& c, StudyState& s, int64_t trials, const std::string& actor);

// FAILED_PRECONDITION STUDY_FINISHED for a study that a user stopped or cancelled: only a COMPLETED one can go on.
absl::Status CheckMayGoOn(const StudyState& s);

// Takes a COMPLETED study back to ACTIVE if no rule ends it any more, and completes an ACTIVE one if a rule does. To be
// called at the end of a change.
void GoOnOrEnd(Context& c, StudyState& s, const std::string& why, const std::string& actor);

// Makes the trial no longer count: from the newest event on, which is about it, designers take it for cancelled.
// RecountFinished must follow.
void Remove(Context& c, StudyState& s, TrialSlot& slot);

// Returns all trials of the study as they are now, the first one first. O(trials). Errors as Storage.
absl::StatusOr<std::vector<storage::TrialSketch>> ReadSketches(Context& c, const StudyState& s);

// Counts the final trials anew (CountAllFinished) after the batch removed some. `before` is what ReadSketches returned
// before.
void RecountFinished(Context& c, StudyState& s, std::vector<storage::TrialSketch> before);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_STUDY_CHANGE_H_
