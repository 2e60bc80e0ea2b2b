#ifndef LUTHIER_LIB_OBJECTIVES_REGRESSION_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_REGRESSION_OBJECTIVE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/data/dataset.h"
#include "lib/objectives/new_objective.h"
#include "lib/objectives/objective.h"
#include "lib/objectives/regression_fold.h"

// `ridge`, `kernel_ridge`, `elastic_net` and `mlp`: regressions.
namespace luthier::objectives {

// Creates a regression on a data set: trained on the training rows of every fold, judged on the others, with the
// derivatives by l1, l2 and gamma. Returns the errors of LoadRows;
// INVALID_ARGUMENT for options that do not fit the data; CANCELLED when stopped.
absl::StatusOr<std::unique_ptr<Objective>> CreateRegressionObjective(const NewObjective& of,
                                                                     const base::StopToken& stop);

// Returns which penalty each column of ridge has; other regressions have one. `length` is that of a list l2, `gammas`
// that of a list gamma; absent for single numbers. Returns INVALID_ARGUMENT if a list has not one entry for each column
// of the data.
absl::StatusOr<bilevel::ColumnPenalties> RegressionPenalties(const catalogue::ObjectiveInfo& info,
                                                             const study::Parameters& options,
                                                             const std::vector<catalogue::PenaltyGroup>& groups,
                                                             std::optional<int64_t> length,
                                                             std::optional<int64_t> gammas,
                                                             const data::Dataset& dataset);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_REGRESSION_OBJECTIVE_H_
