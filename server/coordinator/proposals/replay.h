#ifndef LUTHIER_SERVER_COORDINATOR_PROPOSALS_REPLAY_H_
#define LUTHIER_SERVER_COORDINATOR_PROPOSALS_REPLAY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/proposals/proposer.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

struct ReplayReport {
  int64_t checked = 0;                  // Suggestions computed again.
  int64_t other_version = 0;            // Number skipped, because another version of the algorithm made them.
  std::vector<std::string> mismatches;  // One line each; empty: every bit agrees.
};

// Computes every stored suggestion of a study again, from its recorded prefix of the log, and late points (late.h) from
// their trials' numbers. Compares parameters, details, designer state, direction and gradients set aside bit for bit.
// Promised for one program on one instruction set. Errors as Storage.
absl::StatusOr<ReplayReport> VerifyReplay(storage::Storage* storage, const storage::StudyRecord& study,
                                          const DesignerFactory& create = search::CreateDesigner);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_PROPOSALS_REPLAY_H_
