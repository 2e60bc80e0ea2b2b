#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lib/linear/logistic.h"
#include "lib/linear/logistic_preconditioner.h"
#include "lib/linear/penalized_problem.h"
#include "lib/linear/problem.h"
#include "lib/linear/trainer.h"

// Estimates of the passes over the entries that solvers need. The numbers are fits to the runs in the table of
// docs/reference/linear.md; they have to be right only within a factor of two.
namespace luthier::linear {

double SolverCosts::Of(LinearSolver solver) const {
  switch (solver) {
    case LinearSolver::kLbfgs:
      return lbfgs;
    case LinearSolver::kNewtonCg:
      return newton_cg;
    case LinearSolver::kNewtonCholesky:
      return newton_cholesky;
    case LinearSolver::kDual:
      return dual;
    case LinearSolver::kSvrg:
      break;
  }
  return INFINITY;
}

SolverCosts LinearProblem::Costs() const {
  SolverCosts costs;
  const LinearData& data = *data_;
  const double n = static_cast<double>(std::max<int64_t>(1, data.rows()));
  const double d = static_cast<double>(data.dim());
  const double per_row = std::max(1.0, static_cast<double>(data.nonzeros())) / n;
  const bool hinge = loss_.kind != MarginLoss::Kind::kLogistic;
  // Strength of the penalty: 1 if it curves as much as the losses do along a typical column.
  const double scale2 = data.mean_norm2() / std::max(1.0, d);
  const double rule = l2_ / std::max(1e-300, n * loss_.smoothness() * scale2);
  const double decades = std::max(0.0, -std::log10(std::max(1e-300, rule)));
  const bool weak = decades > 3.0 && n < 8.0 * d;  // The penalty alone decides in many directions.
  // The same along the column that curves most: few words of a text are in most of its rows.
  const double top =
      data.column_scale().head(data.features()).size() > 0 ? data.column_scale().head(data.features()).maxCoeff() : 1.0;
  const double rule_top = l2_ / std::max(1e-300, n * loss_.smoothness() * top * top);
  const double decades_top = std::max(0.0, -std::log10(std::max(1e-300, rule_top)));
  const bool fits = l2_ > 0.0 || !hinge;
  const double hessian = 0.25 * per_row, factor = FactorPasses(data);
  costs.steps = rule > 3.0 ? 2.0 : hinge ? (weak ? 16.0 : 9.0) : (weak ? 10.0 : 6.0);
  if (fits && d <= static_cast<double>(LinearTrainer::kMaxDirectColumns)) {
    costs.newton_cholesky = costs.steps * (2.0 + hessian + factor);
  }
  const int64_t every = SampleEvery(data);
  if (fits && every > 0) {
    costs.newton_cg = (costs.steps + 1.0) * (10.0 + hessian / static_cast<double>(every) + factor);
  }
  costs.lbfgs = rule_top > 3.0 ? 5.0
                : n >= 8.0 * d ? std::min(60.0, 8.0 + 0.5 * d) * (hinge ? 1.4 : 1.0)
                : hinge        ? 25.0 + 25.0 * std::max(decades * decades, decades_top)
                               : 10.0 + 25.0 * std::max(decades, decades_top);
  // If a factor is too expensive, Newton's method can replace L-BFGS once that stalls, but is never the first choice.
  if (fits && d > static_cast<double>(LinearTrainer::kMaxDirectColumns)) {
    costs.newton_cg = std::max(150.0, 1.5 * costs.lbfgs);
  }
  if (l2_ > 0.0) {
    // Rows that share columns undo each other's steps the more, the weaker the penalty is.
    costs.dual = (8.0 + 16.0 * std::log1p(1.5 / rule)) * (hinge && decades > 0.0 ? 1.5 : 1.0);
    // With more columns than rows, the rows hardly interfere.
    if (n < 0.5 * d) costs.dual = std::min(costs.dual, hinge ? 45.0 + 20.0 * std::max(0.0, decades - 3.0) : 35.0);
    // A free bias is searched for beside.
    if (data.bias() == Bias::kFree) costs.dual *= 1.3;
    if (data.mean_norm2() > 0.0 && data.max_norm2() > 20.0 * data.mean_norm2()) costs.dual *= 4.0;
  }
  return costs;
}

SolverCosts LogisticProblem::Costs() const {
  SolverCosts costs;
  const double n = static_cast<double>(std::max<int64_t>(1, data_->rows()));
  const double d = static_cast<double>(data_->features());
  // |p_i - p_j| / 2 curves at most, over all classes.
  const double scale2 = data_->column_scale().head(data_->penalized()).squaredNorm() /
                        std::max(1.0, static_cast<double>(data_->penalized()));
  const double rule = l2_ / std::max(1e-300, 0.5 * n * scale2);
  const double decades = std::max(0.0, -std::log10(std::max(1e-300, rule)));
  // Classes are often separable, which two classes are where rows are few.
  const bool weak = decades > 3.0;
  costs.steps = rule > 3.0 ? 2.0 : weak ? 12.0 : 7.0;
  if (dim() <= LinearTrainer::kMaxDirectColumns) {
    costs.newton_cholesky = costs.steps * (3.0 + LogisticPreconditioner::ExactPasses(*data_));
  }
  costs.lbfgs = rule > 3.0 ? 5.0 : n >= 8.0 * d && !weak ? std::min(80.0, 10.0 + 0.5 * d) : 20.0 + 30.0 * decades;
  const double sampled = LogisticPreconditioner::Passes(*data_);
  costs.newton_cg =
      std::isfinite(sampled) ? (costs.steps + 1.0) * (12.0 + sampled) : std::max(150.0, 1.5 * costs.lbfgs);
  return costs;
}

}  // namespace luthier::linear
