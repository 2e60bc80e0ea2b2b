#ifndef LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/learn/data_root.h"
#include "lib/objectives/objective.h"

namespace luthier::objectives {

// `crf`: a linear-chain conditional random field on labelled sequences (lib/crf); tunes its penalty, its features and
// how it is trained by the quality on held-out sequences.
ObjectiveInfo CrfInfo();

// `info` is CrfInfo() and must outlive the result. `objective` must have passed Validate. INVALID_ARGUMENT
// for folds, generated data and templates that are none; errors of the readers.
absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const ObjectiveInfo& info,
                                                              const study::BuiltinObjective& objective,
                                                              const learn::DataRoot* root);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_
