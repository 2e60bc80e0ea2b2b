#ifndef LUTHIER_LIB_MATH_LBFGS_H_
#define LUTHIER_LIB_MATH_LBFGS_H_

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::math {

// Value of the objective at x; when `gradient` is not null also its gradient (already sized like x). A value that is
// not finite, or a gradient that is not, marks x as outside the domain: the line search steps back from it. An error
// ends the search. A function that has none may return double.
using DifferentiableFunction =
    absl::FunctionRef<absl::StatusOr<double>(const Eigen::VectorXd& x, Eigen::VectorXd* gradient)>;

struct LbfgsOptions {
  int memory = 10;                   // Pairs kept, >= 1.
  int max_iterations = 100;          // Accepted steps, >= 0.
  int max_evaluations = 200;         // Calls of the objective, >= 1: the bound on latency.
  double gradient_tolerance = 1e-6;  // Stop when |P(x - g) - x|_inf is at most this (P: projection on the box).
  // Stop when a step lowers the value by at most this times max(1, |f|). 0: never.
  double value_tolerance = 0.0;
  // Bound on the length (max norm) of the very first trial step, before any curvature is known; the step is min(1,
  // first_step/|d|).
  double first_step = 1.0;
};

enum class LbfgsOutcome {
  kConverged,        // The projected gradient is small enough.
  kSmallDecrease,    // value_tolerance was met.
  kLimit,            // An iteration or evaluation limit was met; x is the best point so far.
  kNoDescent,        // The line search found nothing lower: round-off, or an objective with wrong gradients.
  kNotFiniteAtStart  // Value or gradient at the projected start is not finite; x is that start, value +inf.
};

struct LbfgsResult {
  Eigen::VectorXd x;  // Best point seen, inside the box.
  double value = 0.0;
  double projected_gradient = 0.0;  // Max norm at x.
  int iterations = 0;
  int evaluations = 0;
  LbfgsOutcome outcome = LbfgsOutcome::kConverged;
};

// Minimises f over the box lower <= x <= upper (entries may be infinite; lower(j) == upper(j) fixes a coordinate) from
// `start`, which is projected on the box first. Limited-memory BFGS on the free coordinates (those not held at a bound
// by the gradient: Bertsekas 1982's two-metric projection, so the projected direction descends), a weak-Wolfe line
// search along the projected arc by bracketing with safeguarded cubic steps, pairs kept only with positive curvature.
// Deterministic. Every accepted value is lower than the one before. x.size() == 0 is legal. Looks at `stop` before each
// call of f. Errors: CANCELLED, and those of f.
absl::StatusOr<LbfgsResult> MinimizeLbfgs(DifferentiableFunction f, const Eigen::VectorXd& start,
                                          const Eigen::VectorXd& lower, const Eigen::VectorXd& upper,
                                          const LbfgsOptions& options, const base::StopToken& stop);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_LBFGS_H_
