#ifndef LUTHIER_LIB_OBJECTIVES_MATRIX_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_MATRIX_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/objectives/new_objective.h"
#include "lib/objectives/objective.h"
#include "lib/objectives/vf_idca_objective.h"

// `matrix_completion` and `vf_matrix_completion`: known entries of a matrix, one a row of the data.
namespace luthier::objectives {

// Returns the errors of LoadRows; INVALID_ARGUMENT for columns that
// do not exist, groups that do not fit the data, and matrices that are too large; CANCELLED when stopped.
absl::StatusOr<std::unique_ptr<Objective>> CreateMatrixObjective(const NewObjective& of, const base::StopToken& stop);

// Does the same for vf_matrix_completion. Its Train is UNIMPLEMENTED: models of matrices are not stored.
absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfMatrixObjective(const NewObjective& of,
                                                                         const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_MATRIX_OBJECTIVE_H_
