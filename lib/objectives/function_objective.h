#ifndef LUTHIER_LIB_OBJECTIVES_FUNCTION_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_FUNCTION_OBJECTIVE_H_

#include <memory>

#include "lib/objectives/objective.h"
#include "lib/objectives/test_functions.h"
#include "lib/study/search_space.h"

namespace luthier::objectives {

// `function:NAME`: a test function of the parameters x1 … xd, with optional noise, delay, learning curve and failures.
// Metric `value`; its gradient is the exact one of the noise-free function.
ObjectiveInfo FunctionInfo(const TestFunction& function);

// `info` is FunctionInfo(function); both must outlive the result. `options` must have passed Validate.
std::unique_ptr<Objective> CreateFunctionObjective(const ObjectiveInfo& info, const TestFunction& function,
                                                   study::Parameters options, study::SearchSpace space);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_FUNCTION_OBJECTIVE_H_
