#ifndef LUTHIER_LIB_OBJECTIVES_FUNCTION_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_FUNCTION_OBJECTIVE_H_

#include <memory>

#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/test_functions.h"
#include "lib/objectives/objective.h"
#include "lib/study/search_space.h"

namespace luthier::objectives {

// `info` is FunctionInfo(function); both must outlive the result. `options` must have passed Validate.
std::unique_ptr<Objective> CreateFunctionObjective(const catalogue::ObjectiveInfo& info,
                                                   const catalogue::TestFunction& function, study::Parameters options,
                                                   study::SearchSpace space);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_FUNCTION_OBJECTIVE_H_
