#ifndef LUTHIER_LIB_OBJECTIVES_LINEAR_INFO_H_
#define LUTHIER_LIB_OBJECTIVES_LINEAR_INFO_H_

#include "lib/objectives/objective.h"

// The linear classifiers, as FoldedObjective trains them.
namespace luthier::objectives {

// `logistic`: L2 logistic regression, two or more classes.
ObjectiveInfo LogisticInfo();
// `hsvm`: support vector machine with the Huberized hinge loss, two classes.
ObjectiveInfo HsvmInfo();

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_LINEAR_INFO_H_
