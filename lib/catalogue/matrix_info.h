#ifndef LUTHIER_LIB_CATALOGUE_MATRIX_INFO_H_
#define LUTHIER_LIB_CATALOGUE_MATRIX_INFO_H_

#include "lib/catalogue/objective_info.h"

// Low-rank matrix completion (lib/bilevel/matrix_completion.h).
namespace luthier::catalogue {

// Largest number of rows plus columns of vf_matrix_completion, and of rows times columns of matrix_completion.
inline constexpr int kMostMatrixSides = 400;
inline constexpr int kMostMatrixCells = 2'000'000;

// `matrix_completion`: matrix completion whose strengths are tuned.
ObjectiveInfo MatrixCompletionInfo();
// `vf_matrix_completion`: matrix completion whose one trial chooses all strengths.
ObjectiveInfo VfMatrixCompletionInfo();

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_MATRIX_INFO_H_
