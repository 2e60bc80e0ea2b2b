#ifndef LUTHIER_LIB_CATALOGUE_REGRESSION_INFO_H_
#define LUTHIER_LIB_CATALOGUE_REGRESSION_INFO_H_

#include "lib/catalogue/objective_info.h"

// The regressions, as RegressionObjective trains them.
namespace luthier::catalogue {

// Returns true for `ridge`, `kernel_ridge`, `elastic_net` and `mlp`: their labels are numbers.
bool IsRegression(const ObjectiveInfo& info);

// Option of ridge that selects its validation_loss.
inline constexpr char kCriterionOption[] = "criterion";
// Setting of ridge: the rate at which the weights of rows fall with their age.
inline constexpr char kRecencyOption[] = "recency";
// Option of ridge that names further targets.
inline constexpr char kTargetsOption[] = "targets";
// Returns true if the options of a ridge objective ask for a criterion without held-out rows.
bool JudgesTrainingRows(const study::Parameters& options);

// `ridge`: linear least squares with an L2 penalty.
ObjectiveInfo RidgeInfo();
// `kernel_ridge`: kernel ridge regression with a Gaussian kernel.
ObjectiveInfo KernelRidgeInfo();
// `elastic_net`: linear least squares with an L1 and an L2 penalty.
ObjectiveInfo ElasticNetInfo();
// `mlp`: a network with one hidden layer, with a weight decay for each input.
ObjectiveInfo MlpInfo();

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_REGRESSION_INFO_H_
