#ifndef LUTHIER_BENCH_SEARCH_WIDE_FUNCTIONS_H_
#define LUTHIER_BENCH_SEARCH_WIDE_FUNCTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"

namespace luthier {

// Functions of any number of parameters, for trying what was tuned on others (bench/search/README.md). Names:
// ackley, griewank, levy, rastrigin, rosenbrock or styblinski_tang followed by 2 … 100, the number of parameters;
// sparse25 is Levy's function of five of 25. With "_rotated" behind it the function is turned about its minimizer by a
// random rotation, so that no parameter acts by itself. Boxes lie off the minimizer by offsets that are drawn from seed
// 1; shift: from this seed instead (and the rotation too); the problem's name then ends in "+shift". Absent for any
// other name, and for names of builtin test functions.
std::optional<simulate::Problem> WideProblem(absl::string_view name, std::optional<uint64_t> shift = std::nullopt);

// One of these, one of mixed_functions.h, or a builtin test function. NOT_FOUND for any other name.
absl::StatusOr<simulate::Problem> BenchProblem(absl::string_view name, std::optional<uint64_t> shift = std::nullopt);

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_WIDE_FUNCTIONS_H_
