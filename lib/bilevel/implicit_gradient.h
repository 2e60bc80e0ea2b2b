#ifndef LUTHIER_LIB_BILEVEL_IMPLICIT_GRADIENT_H_
#define LUTHIER_LIB_BILEVEL_IMPLICIT_GRADIENT_H_

#include <Eigen/Core>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/linear/conjugate_gradient.h"

namespace luthier::bilevel {

struct ImplicitGradientOptions {
  // The linear system is solved to |H q - grad g| <= max(absolute, relative * |grad g|). With a preconditioner, a
  // relative tolerance of up to 1e-6 becomes 1e-13, because a few more products then give all digits.
  double absolute_tolerance = 0.0;
  double relative_tolerance = 1e-10;
  int max_iterations = 0;  // Limit of iterations of conjugate gradients; 0: 10 times the dimension, at least 100.
  // Computes mu and the error terms, which may cost an eigenvalue estimate (InnerProblem::Constants). If false, mu is
  // 0, the errors are infinite and nothing is certified.
  bool error_bound = true;
  base::StopToken stop;
};

// The gradient of E at lambda, from an x near X(lambda):
//   p = dg/dlambda - D' q,  H q = grad g     (all at x; Pedregosa 2016, equation 2 and algorithm 1)
struct ImplicitGradient {
  // kConverged and kPrecision: all fields are set and `gradient` is good up to error_bound. kIterationLimit: the same
  // with a larger error. kIndefinite, kNonFinite: no gradient, only the norms computed before.
  linear::CgOutcome outcome = linear::CgOutcome::kConverged;
  double outer_value = 0.0;  // g(x)
  Eigen::VectorXd gradient;  // p: dE/dlambda, s entries, in lambda's coordinates.
  Eigen::VectorXd adjoint;   // q; warm start for a solve nearby with the same outer data.
  int cg_iterations = 0;
  int passes = 0;  // Passes over the inner data: values of h and products with its Hessian.

  // The a-posteriori error bound and its terms:
  //   e_x = |grad h(x)| / mu                                    distance of x from X(lambda)
  //   e_q = (|H q - grad g| + (L_g + L_H |q|) e_x) / mu         error of q
  //   e_p = L_D e_x |q| + (|D| + L_D e_x) e_q + e_direct        error of p; e_direct: OuterLoss::DirectError
  double inner_gradient_norm = 0.0;
  double outer_gradient_norm = 0.0;  // |grad g|
  double cg_residual = 0.0;
  double mu = 0.0;
  double error_x = 0.0;
  double error_q = 0.0;
  double error_bound = 0.0;  // e_p, on the 2-norm of the error of `gradient`.
  bool certified = false;    // True if the constants are true bounds; else e_p is an estimate.

  bool usable() const {
    return outcome == linear::CgOutcome::kConverged || outcome == linear::CgOutcome::kPrecision ||
           outcome == linear::CgOutcome::kIterationLimit;
  }
};

// Computes the gradient. `warm_adjoint` is the start for q, or empty. Leaves inner's point at x. Takes one pass over
// the outer data, and two plus one for each conjugate gradient iteration over the inner data. Returns CANCELLED once
// options.stop is raised.
absl::StatusOr<ImplicitGradient> ComputeImplicitGradient(InnerProblem& inner, OuterLoss& outer,
                                                         const Eigen::VectorXd& x, const Eigen::VectorXd& warm_adjoint,
                                                         const ImplicitGradientOptions& options);

// Returns dE along `direction` (s entries): gradient . direction. One adjoint solve gives all slopes.
double DirectionalSlope(const ImplicitGradient& gradient, const Eigen::VectorXd& direction);

// Returns the mean of several folds' gradients with weights proportional to `weights` (> 0): value, gradient,
// error_bound (a weighted sum bounds the sum's error), certified if all are. There is at least one fold; all are usable
// and of one size.
ImplicitGradient AverageFolds(const std::vector<ImplicitGradient>& folds, const std::vector<double>& weights);

struct PolishLimits {
  int steps = 0;
  int passes = 0;  // Limit of passes over the inner data; 0: none.
};

// Improves x by Newton steps of `inner` until the last one was predicted to lower h by at most `gain` times |h(x)|, or
// |grad h| is at most `goal`, or rounding stops it, or a limit is reached; returns the final |grad h|. Near the optimum
// each step squares the error, so one to three make e_x vanish beside other errors. The preconditioner of the first
// point serves them all, and the adjoint's solve after them. Adds its passes over the inner data to *passes, unless
// null. Returns CANCELLED when stopped.
absl::StatusOr<double> PolishInner(InnerProblem& inner, double gain, PolishLimits limits, const base::StopToken& stop,
                                   Eigen::VectorXd* x, double goal = 0.0, int* passes = nullptr);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_IMPLICIT_GRADIENT_H_
