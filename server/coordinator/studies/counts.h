#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_COUNTS_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/trial.h"
#include "lib/study/trial_state.h"
#include "server/coordinator/studies/core_state.h"
#include "server/storage/storage.h"

// Keeps the counts and sets of CoreState in step with the trials.
namespace luthier::coordinator {

// Returns the number of unexpired leases of each worker, counted from the rows.
std::unordered_map<std::string, int> CountHeld(const CoreState& state);
int Held(const CoreState& state, const std::string& worker);

// Returns the use of all projects, counted from studies and asks, without the asks that are stalled.
std::map<std::string, ProjectUse> CountUse(const CoreState& state);
// Changes one count of a project.
void AddUse(CoreState& state, absl::string_view project, int64_t ProjectUse::* count, int64_t by);
// Makes asks that the project's quota held back be looked at again.
void Unstall(CoreState& state, ProjectUse& use);
// Brings CoreState::held_back up to date after a change of the project's stalled asks.
void NoteStalled(CoreState& state, const std::string& project);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_COUNTS_H_
