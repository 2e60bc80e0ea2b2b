#ifndef LUTHIER_LIB_OBJECTIVES_VF_SVM_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_VF_SVM_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/objective_info.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/objectives/vf_idca_objective.h"
#include "lib/study/search_space.h"

// `vf_svm`: VF-iDCA for support vector machines with bounded weights.
namespace luthier::objectives {

// Arguments and errors as of CreateVfIdcaObjective; INVALID_ARGUMENT for other than two classes.
absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfSvmObjective(
    const catalogue::ObjectiveInfo& info, const study::BuiltinObjective& objective, study::SearchSpace space,
    const data::DataRoot* root, const data::DataCache* cache, const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_VF_SVM_OBJECTIVE_H_
