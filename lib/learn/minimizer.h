#ifndef LUTHIER_LIB_LEARN_MINIMIZER_H_
#define LUTHIER_LIB_LEARN_MINIMIZER_H_

#include <Eigen/Core>

#include "absl/functional/function_ref.h"
#include "lib/learn/stop.h"

namespace luthier::learn {

// What a solver of min f(x) reports after each iteration.
enum class SolveState {
  kRunning,
  kConverged,  // The gradient is as small as asked for.
  kPrecision,  // Rounding prevents further progress; x is as good as it gets.
  kNonFinite,  // f or its gradient is not finite at the start, or everywhere the line search looked. x is the last
               // finite iterate (or the start).
  kStopped,    // The stop flag was seen. The iteration was given up: the state is as before it, so going on later
               // gives the same iterates.
};

// f(x), and its gradient into the second argument.
using ValueAndGradient = absl::FunctionRef<double(const Eigen::VectorXd&, Eigen::VectorXd*)>;

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_MINIMIZER_H_
