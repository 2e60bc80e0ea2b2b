#ifndef LUTHIER_BENCH_SEARCH_WIDE_FUNCTIONS_H_
#define LUTHIER_BENCH_SEARCH_WIDE_FUNCTIONS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"

namespace luthier {

// Functions of many parameters, minimum 0, minimizers away from the centre of the box: rosenbrock20, ackley20, levy20,
// ackley50, levy50, and sparse25 (Levy's function of five of 25 parameters). Absent for any other name.
std::optional<simulate::Problem> WideProblem(absl::string_view name);

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_WIDE_FUNCTIONS_H_
