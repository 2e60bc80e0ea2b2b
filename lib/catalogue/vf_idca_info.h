#ifndef LUTHIER_LIB_CATALOGUE_VF_IDCA_INFO_H_
#define LUTHIER_LIB_CATALOGUE_VF_IDCA_INFO_H_

#include "lib/catalogue/objective_info.h"

// Objectives whose one trial chooses all strengths of a sparse regression by itself (lib/bilevel/vf_idca).
namespace luthier::catalogue {

// Returns true for `vf_elastic_net`, `vf_sparse_group_lasso`, `vf_svm` and `vf_matrix_completion` (matrix_info.h).
bool IsVfIdca(const ObjectiveInfo& info);

// `vf_elastic_net`: both strengths of the elastic net.
ObjectiveInfo VfElasticNetInfo();
// `vf_sparse_group_lasso`: a strength for each group of columns, and that of the L1 norm.
ObjectiveInfo VfSparseGroupLassoInfo();
// `vf_svm`: a bound for each weight of a support vector machine, and the strength of their norm.
ObjectiveInfo VfSvmInfo();

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_VF_IDCA_INFO_H_
