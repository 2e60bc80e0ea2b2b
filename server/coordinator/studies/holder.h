#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_HOLDER_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_HOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "lib/study/trial.h"
#include "server/coordinator/studies/study.h"
#include "server/storage/storage.h"

// Checks of who may still report on a trial.
namespace luthier::coordinator {

// OK while the trial is RUNNING and `token` belongs to its newest grant. Otherwise says why a call with that token has
// no effect: FAILED_PRECONDITION TRIAL_FINAL or LEASE_LOST. The slot has its row.
absl::Status CheckHolder(const TrialSlot& slot, const std::string& token);

// Returns FAILED_PRECONDITION TRIAL_FINAL.
absl::Status AlreadyFinal(const study::Trial& trial);

// True if the trial was cancelled, or pruned by a stopping rule, while `token` held it: its holder is told to stop
// rather than that it lost the trial.
bool StoppedUnder(const storage::TrialRecord& record, const std::string& token);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_HOLDER_H_
