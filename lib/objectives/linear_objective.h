#ifndef LUTHIER_LIB_OBJECTIVES_LINEAR_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_LINEAR_OBJECTIVE_H_

#include <cstdint>
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

namespace luthier::objectives {

// Returns true if a trial with these options may have an intercept that is penalised, with l2.
bool MayPenalizeIntercept(const catalogue::ObjectiveInfo& info, const study::Parameters& options);

// Returns which penalty each column or weight of the data has. `length`: number of strengths of a list l2 (LengthOf),
// absent where l2 is one number. Returns the errors of GroupColumns; INVALID_ARGUMENT when the list has not as many
// entries as the data ask for.
absl::StatusOr<bilevel::ColumnPenalties> PenaltiesFor(const catalogue::ObjectiveInfo& info,
                                                      const study::Parameters& options,
                                                      const std::vector<catalogue::PenaltyGroup>& groups,
                                                      std::optional<int64_t> length, const data::Dataset& dataset);

// Returns INVALID_ARGUMENT if the model is for two classes and the data have more.
absl::Status CheckClasses(const catalogue::ObjectiveInfo& info, const study::BuiltinObjective& objective,
                          const data::Dataset& dataset);

// `logistic` or `hsvm` on a data set: trained on the training rows of every fold, judged on the others, with the
// derivative by l2. The folds advance side by side, an iteration a round, so a point of the curve is the whole
// cross-validation. Returns the errors of data::LoadDataset and of the split; INVALID_ARGUMENT for options that do not
// fit the data; CANCELLED when stopped.
absl::StatusOr<std::unique_ptr<Objective>> CreateLinearObjective(const NewObjective& of, const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_LINEAR_OBJECTIVE_H_
