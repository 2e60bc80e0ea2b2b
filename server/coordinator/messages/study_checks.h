#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_STUDY_CHECKS_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_STUDY_CHECKS_H_

#include "absl/status/status.h"
#include "lib/study/study_spec.h"

// The checks that decide which studies are taken: the spec by itself (study::ValidateSpec), its algorithm against its
// space (search::Validate), and its builtin objective (catalogue::Validate, catalogue::ValidateUse). Whoever creates,
// previews or changes a study asks here. Each returns INVALID_ARGUMENT with every violation, fields as in a study file.
namespace luthier::coordinator {

// Checks a new study.
absl::Status CheckNew(const study::StudySpec& spec);

// Checks the spec that `before` is to become. An objective that stays is not checked by study::ValidateNewSpec, because
// an older version may have accepted what this one refuses.
absl::Status CheckChanged(const study::StudySpec& before, const study::StudySpec& next);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_STUDY_CHECKS_H_
