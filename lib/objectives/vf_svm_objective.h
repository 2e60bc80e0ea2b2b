#ifndef LUTHIER_LIB_OBJECTIVES_VF_SVM_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_VF_SVM_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/objectives/new_objective.h"
#include "lib/objectives/vf_idca_objective.h"

// `vf_svm`: VF-iDCA for support vector machines with bounded weights.
namespace luthier::objectives {

// Errors as of CreateVfIdcaObjective; INVALID_ARGUMENT for other than two classes.
absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfSvmObjective(const NewObjective& of,
                                                                      const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_VF_SVM_OBJECTIVE_H_
