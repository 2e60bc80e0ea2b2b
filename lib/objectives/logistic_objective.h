#ifndef LUTHIER_LIB_OBJECTIVES_LOGISTIC_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_LOGISTIC_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/learn/data_root.h"
#include "lib/objectives/objective.h"
#include "lib/study/search_space.h"

namespace luthier::objectives {

// `logistic`: L2 logistic regression on a data set; tunes the strength by the loss on held-out rows or over folds, with
// its exact derivative (lib/bilevel).
ObjectiveInfo LogisticInfo();

// `info` is LogisticInfo() and must outlive the result. `objective` and `metric` must have passed Validate. Errors of
// learn::LoadDataset and of the split.
absl::StatusOr<std::unique_ptr<Objective>> CreateLogisticObjective(const ObjectiveInfo& info,
                                                                   const study::BuiltinObjective& objective,
                                                                   study::SearchSpace space, study::MetricSpec metric,
                                                                   const learn::DataRoot* root);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_LOGISTIC_OBJECTIVE_H_
