#ifndef LUTHIER_BENCH_SEARCH_RUGGED_FUNCTIONS_H_
#define LUTHIER_BENCH_SEARCH_RUGGED_FUNCTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"

namespace luthier {

// Functions on [-5, 5]^d after those of the BBOB suite (Hansen, Finck, Ros & Auger 2009), smooth and rugged ones, of
// any dimension; every seed rotates and moves them anew. Their minimum is 0. The numbers are those of the suite, but
// the instances are not its own: they are for tuning and for pages, and the suite's instances stay for judging.
//   f1 sphere; f6 attractive sector; f8 Rosenbrock; f15 Rastrigin, bent; f16 Weierstrass; f17, f18 Schaffer F7,
//   condition 10 and 1000; f21 Gallagher's 101 peaks; f23 Katsuura; f24 Lunacek's two Rastrigin funnels
// Returns their names.
std::vector<std::string> RuggedFunctions();

// Returns a function; `name` is "fN/dD" with D from 2 to 40. NOT_FOUND for others.
absl::StatusOr<simulate::Problem> RuggedProblem(absl::string_view name, uint64_t seed);

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_RUGGED_FUNCTIONS_H_
