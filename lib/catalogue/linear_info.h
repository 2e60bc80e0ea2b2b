#ifndef LUTHIER_LIB_CATALOGUE_LINEAR_INFO_H_
#define LUTHIER_LIB_CATALOGUE_LINEAR_INFO_H_

#include "lib/catalogue/objective_info.h"

// The linear classifiers, as LinearObjective trains them.
namespace luthier::catalogue {

// `logistic`: L2 logistic regression, two or more classes.
ObjectiveInfo LogisticInfo();
// `hsvm`: support vector machine with the Huberized hinge loss, two classes.
ObjectiveInfo HsvmInfo();

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_LINEAR_INFO_H_
