#ifndef LUTHIER_SERVER_COORDINATOR_BATCH_FIND_H_
#define LUTHIER_SERVER_COORDINATOR_BATCH_FIND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Returns the study with its trials. NOT_FOUND; DATA_LOSS if it is damaged; errors as Storage.
absl::StatusOr<StudyState*> FindStudy(Context& c, const std::string& id);
// Null if there is none.
absl::StatusOr<StudyState*> FindStudy(Context& c, storage::StudyKey key);

// Returns the slot of the trial with its row. The row of a final trial is read from storage and stays for the rest of
// the batch. NOT_FOUND, or errors as Storage.
absl::StatusOr<TrialSlot*> FindTrial(Context& c, StudyState& s, int64_t number);

struct FoundTrial {
  StudyState* study = nullptr;
  TrialSlot* slot = nullptr;
};
absl::StatusOr<FoundTrial> FindTrial(Context& c, const std::string& id, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_BATCH_FIND_H_
