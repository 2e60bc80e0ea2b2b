#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_FIND_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_FIND_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/studies/context.h"

namespace luthier::coordinator {

// Returns the study with its trials. NOT_FOUND; DATA_LOSS if it is damaged; errors as Storage.
absl::StatusOr<Study*> FindStudy(Context& c, const std::string& id);
// Null if there is none.
absl::StatusOr<Study*> FindStudy(Context& c, storage::StudyKey key);

// Checks that the caller may change the study. PERMISSION_DENIED ROLE.
absl::Status CheckOwner(const storage::StudyRecord& study, const Authority& by);

// As FindStudy, and Study::FindTrial.
struct FoundTrial {
  Study* study = nullptr;
  TrialSlot* slot = nullptr;
};
absl::StatusOr<FoundTrial> FindTrial(Context& c, const std::string& id, int64_t number);

// As FindTrial, and CheckOwner.
absl::StatusOr<FoundTrial> FindTrialToChange(Context& c, const std::string& id, int64_t number, const Authority& by);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_FIND_H_
