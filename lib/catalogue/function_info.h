#ifndef LUTHIER_LIB_CATALOGUE_FUNCTION_INFO_H_
#define LUTHIER_LIB_CATALOGUE_FUNCTION_INFO_H_

#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/test_functions.h"

namespace luthier::catalogue {

// Prefix of the model names of test functions.
inline constexpr char kFunctionPrefix[] = "function:";

// `function:NAME`: a test function of the parameters x1 … xd, with optional noise, delay, learning curve and failures.
// Metric `value`; its gradient is the exact one of the noise-free function.
ObjectiveInfo FunctionInfo(const TestFunction& function);

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_FUNCTION_INFO_H_
