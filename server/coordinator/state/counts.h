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

// Counts a new PENDING trial.
void CountNew(CoreState& state, StudyState& s);

// Moves the trial to the state that follows on `event`. The table of transitions (lib/study/trial_state.h) must allow
// it.
void Move(CoreState& state, StudyState& s, TrialSlot& slot, study::TrialEvent event);

// Moves a new PENDING trial, a result from elsewhere, straight to the final state `next`.
void MoveImported(CoreState& state, StudyState& s, TrialSlot& slot, study::TrialState next);

// Counts a final trial for the rules that end or pause a study. To be called in order of `finish_seq`.
void CountFinished(StudyState& s, const storage::TrialSketch& trial);
// Counts all final trials from the start, as CountFinished and CountModel do. Trials from whose models others may start
// have whole rows.
void CountAllFinished(StudyState& s, std::vector<storage::TrialSketch> finished);
// Adds the trial, if it is COMPLETE, to those from whose models others may start. To be called in order of
// `finish_seq`.
void CountModel(StudyState& s, const study::Trial& trial);

// Returns the number of unexpired leases of each worker, counted from the rows.
std::unordered_map<std::string, int> CountHeld(const CoreState& state);
int Held(const CoreState& state, const std::string& worker);
// Adds `by`, 1 or -1, to the number of leases of `worker` on trials of `s`.
void AddHeld(CoreState& state, const StudyState& s, const std::string& worker, int by);

// Returns the use of all projects, counted from studies and asks, without the asks that are stalled.
std::map<std::string, ProjectUse> CountUse(const CoreState& state);
// Changes one count of a project.
void AddUse(CoreState& state, absl::string_view project, int64_t ProjectUse::* count, int64_t by);
// Makes asks that the project's quota held back be looked at again.
void Unstall(CoreState& state, ProjectUse& use);
// Brings CoreState::held_back up to date after a change of the project's stalled asks.
void NoteStalled(CoreState& state, const std::string& project);

// Notes that the holder of a running trial has been silent for too long, or is back. False: that was known already.
bool MarkExpired(CoreState& state, StudyState& s, int64_t number);
bool ClearExpired(CoreState& state, StudyState& s, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_COUNTS_H_
