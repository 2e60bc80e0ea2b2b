#ifndef LUTHIER_LIB_OBJECTIVES_HSVM_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_HSVM_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/learn/data_root.h"
#include "lib/objectives/objective.h"

namespace luthier::objectives {

// `hsvm`: support vector machine with the Huberized hinge loss (learn::MarginLoss), two classes, trained to its
// optimum for one l2 and epsilon, judged on held-out rows.
ObjectiveInfo HsvmInfo();

// Loads and splits the data. Errors of learn::LoadDataset and learn::SplitValidation; INVALID_ARGUMENT for more than
// two classes, or for a solver that does not fit.
absl::StatusOr<std::unique_ptr<Objective>> CreateHsvmObjective(const ObjectiveInfo& info,
                                                               const study::BuiltinObjective& objective,
                                                               study::SearchSpace space, study::MetricSpec metric,
                                                               const learn::DataRoot* root);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_HSVM_OBJECTIVE_H_
