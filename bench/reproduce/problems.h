#ifndef LUTHIER_BENCH_REPRODUCE_PROBLEMS_H_
#define LUTHIER_BENCH_REPRODUCE_PROBLEMS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"

namespace luthier::reproduce {

// What the experiments minimise: a problem and what the methods of the thesis need to know of it besides.
struct Problem {
  simulate::Problem base;
  double lipschitz = 0.0;  // Constant over the unit cube, in the problem's units; 0: unknown.
  // Gradient in user units, one entry a parameter; null where there is none.
  std::function<std::vector<double>(const study::Parameters&)> gradient;
};

// The test functions, in order of dimension and name.
std::vector<std::string> TestFunctionNames();
// Besides: additive32 (the squared distance to a point that the seed draws, 32 parameters), logistic, logistic_log (the
// same with logarithmic scales) and, where Box2D was found, robot3 and robot4.
std::vector<std::string> TaskNames();

// `seed` draws the parameters' defaults, with which every method but random search begins: the middle of the box, which
// they would take instead, is far better than most points of some functions (Rosenbrock's) and lines up with minima of
// others (Michalewicz'). It also places the robot's goal, uniform in [-5, 5]^2. NOT_FOUND for any other name.
absl::StatusOr<Problem> MakeProblem(absl::string_view name, uint64_t seed);

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_PROBLEMS_H_
