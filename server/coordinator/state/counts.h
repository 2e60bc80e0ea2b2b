#ifndef LUTHIER_SERVER_COORDINATOR_STATE_COUNTS_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/trial.h"
#include "lib/study/trial_state.h"
#include "server/coordinator/state/core_state.h"
#include "server/storage/storage.h"

// Keeps the counts and sets of CoreState in step with the trials.
namespace luthier::coordinator {

// A new PENDING trial.
void CountNew(CoreState& state, StudyState& s);

// Takes the trial to its next state. The table of transitions (lib/study/trial_state.h) must allow it.
void Move(CoreState& state, StudyState& s, TrialSlot& slot, study::TrialEvent event);

// Takes a new PENDING trial, a result from elsewhere, straight to the final state `next`.
void MoveImported(CoreState& state, StudyState& s, TrialSlot& slot, study::TrialState next);

// Counts a trial that is final for the rules that end or pause a study. In order of `finish_seq`.
void CountFinished(StudyState& s, const storage::TrialSketch& trial);
// The same, and CountModel, from the start, of all trials that are final, with whole rows where others may start from
// them.
void CountAllFinished(StudyState& s, std::vector<storage::TrialSketch> finished);
// Others may start from the model of the trial, if it is COMPLETE. In order of `finish_seq`.
void CountModel(StudyState& s, const study::Trial& trial);

// Unexpired leases of each worker, counted from the rows.
std::unordered_map<std::string, int> CountHeld(const CoreState& state);
int Held(const CoreState& state, const std::string& worker);
// A trial of `s` is held by one lease of `worker` more (1) or less (-1).
void AddHeld(CoreState& state, const StudyState& s, const std::string& worker, int by);

// Use of all projects, counted from studies and asks; without the asks that are stalled.
std::map<std::string, ProjectUse> CountUse(const CoreState& state);
// Changes one count of a project.
void AddUse(CoreState& state, absl::string_view project, int64_t ProjectUse::* count, int64_t by);
// Asks that were held back by the project's quota are looked at again.
void Unstall(CoreState& state, ProjectUse& use);
// Keeps CoreState::held_back after a change of the project's stalled asks.
void NoteStalled(CoreState& state, const std::string& project);

// The holder of a running trial has been silent for too long, or is back. False: known already.
bool MarkExpired(CoreState& state, StudyState& s, int64_t number);
bool ClearExpired(CoreState& state, StudyState& s, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_COUNTS_H_
