#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_FIND_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_FIND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/studies/context.h"

namespace luthier::coordinator {

// Returns the study with its trials. NOT_FOUND; DATA_LOSS if it is damaged; errors as Storage.
absl::StatusOr<Study*> FindStudy(Context& c, const std::string& id);
// Null if there is none.
absl::StatusOr<Study*> FindStudy(Context& c, storage::StudyKey key);

// As FindStudy, and Study::FindTrial.
struct FoundTrial {
  Study* study = nullptr;
  TrialSlot* slot = nullptr;
};
absl::StatusOr<FoundTrial> FindTrial(Context& c, const std::string& id, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_FIND_H_
