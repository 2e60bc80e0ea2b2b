#include "lib/bilevel/inner_problem.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::VectorXd;

absl::StatusOr<VectorXd> InnerProblem::ExactGradient(const VectorXd& x, const base::StopToken& stop) {
  VectorXd gradient;
  LUTHIER_RETURN_IF_ERROR(Value(x, &gradient, stop).status());
  return gradient;
}

absl::StatusOr<LinearSolution> SolveQuadratic(InnerProblem& inner, const VectorXd& b, double tolerance,
                                              int max_iterations, const base::StopToken& stop) {
  constexpr int kRefinements = 30;
  LUTHIER_ASSIGN_OR_RETURN(const bool factored, inner.PreparePreconditioner(stop));
  linear::CgOptions options;
  options.tolerance = tolerance * b.norm();
  options.max_iterations = factored ? std::min(max_iterations, kRefinements) : max_iterations;
  options.stop = stop;
  const std::function<VectorXd(const VectorXd&)> precondition = [&](const VectorXd& r) {
    return inner.Precondition(r);
  };
  VectorXd diagonal;
  if (factored) {
    options.precondition = &precondition;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(diagonal, inner.HessianDiagonal(stop));
  }
  const auto multiply = [&](const VectorXd& v) { return inner.HessianVector(v, stop); };
  LUTHIER_ASSIGN_OR_RETURN(linear::CgResult cg, linear::SolveCg(multiply, b, diagonal, VectorXd(), options));
  LinearSolution solution;
  solution.weights = std::move(cg.x);
  solution.outcome = cg.outcome;
  solution.products = cg.iterations;
  solution.relative_gradient = b.norm() > 0.0 ? cg.residual_norm / b.norm() : 0.0;
  return solution;
}

}  // namespace luthier::bilevel
