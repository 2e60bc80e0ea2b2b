#include "lib/bilevel/implicit_gradient.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::bilevel {
namespace {

using Eigen::VectorXd;

constexpr double kExact = 1e-13;
constexpr double kLoose = 1e-6;  // Larger tolerances come from searches that need no more digits.

}  // namespace

absl::StatusOr<ImplicitGradient> ComputeImplicitGradient(InnerProblem& inner, OuterLoss& outer, const VectorXd& x,
                                                         const VectorXd& warm_adjoint,
                                                         const ImplicitGradientOptions& options) {
  LUTHIER_CHECK(x.size() == inner.dim());
  ImplicitGradient result;
  const base::StopToken& stop = options.stop;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd inner_gradient, inner.ExactGradient(x, stop));
  result.inner_gradient_norm = inner_gradient.norm();
  VectorXd b;
  LUTHIER_ASSIGN_OR_RETURN(result.outer_value, outer.Value(x, &b, stop));
  result.outer_gradient_norm = b.norm();
  if (!std::isfinite(result.inner_gradient_norm) || !std::isfinite(result.outer_value) || !b.allFinite()) {
    result.outcome = linear::CgOutcome::kNonFinite;
    return result;
  }
  LUTHIER_RETURN_IF_ERROR(inner.SetPoint(x, stop));
  LUTHIER_ASSIGN_OR_RETURN(const bool preconditioned, inner.PreparePreconditioner(stop));
  VectorXd diagonal;
  if (!preconditioned) {
    LUTHIER_ASSIGN_OR_RETURN(diagonal, inner.HessianDiagonal(stop));
  }
  const bool digits = preconditioned && options.relative_tolerance <= kLoose;
  const double relative = digits ? std::min(kExact, options.relative_tolerance) : options.relative_tolerance;
  linear::CgOptions cg_options;
  cg_options.tolerance = std::max(options.absolute_tolerance, relative * b.norm());
  cg_options.max_iterations = options.max_iterations;
  cg_options.stop = stop;
  const std::function<VectorXd(const VectorXd&)> precondition = [&inner](const VectorXd& r) {
    return inner.Precondition(r);
  };
  if (preconditioned) cg_options.precondition = &precondition;
  const auto multiply = [&](const VectorXd& v) { return inner.HessianVector(v, stop); };
  LUTHIER_ASSIGN_OR_RETURN(linear::CgResult cg, linear::SolveCg(multiply, b, diagonal, warm_adjoint, cg_options));
  result.outcome = cg.outcome;
  result.cg_iterations = cg.iterations;
  result.passes = 1 + cg.iterations;
  result.cg_residual = cg.residual_norm;
  if (!result.usable()) return result;
  result.adjoint = std::move(cg.x);
  result.gradient = -inner.CrossTransposeVector(result.adjoint);
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd direct, outer.DirectGradient(x, stop));
  if (direct.size() > 0) result.gradient += direct;

  if (!options.error_bound) {
    result.error_x = result.error_q = result.error_bound = INFINITY;
    return result;
  }
  LUTHIER_ASSIGN_OR_RETURN(const InnerConstants constants, inner.Constants(stop));
  result.mu = constants.mu;
  const double q = result.adjoint.norm();
  result.error_x = result.inner_gradient_norm / constants.mu;
  result.error_q =
      (result.cg_residual + (outer.GradientLipschitz() + constants.hessian_lipschitz * q) * result.error_x) /
      constants.mu;
  result.error_bound = constants.cross_lipschitz * result.error_x * q +
                       (inner.CrossNorm() + constants.cross_lipschitz * result.error_x) * result.error_q +
                       outer.DirectError(x, result.error_x);
  result.certified = constants.certified && std::isfinite(result.error_bound);
  return result;
}

double DirectionalSlope(const ImplicitGradient& gradient, const VectorXd& direction) {
  LUTHIER_CHECK(gradient.usable() && direction.size() == gradient.gradient.size());
  return gradient.gradient.dot(direction);
}

ImplicitGradient AverageFolds(const std::vector<ImplicitGradient>& folds, const std::vector<double>& weights) {
  LUTHIER_CHECK(!folds.empty() && folds.size() == weights.size());
  double total = 0.0;
  for (const double w : weights) {
    LUTHIER_CHECK(w > 0.0);
    total += w;
  }
  ImplicitGradient mean;
  mean.gradient = VectorXd::Zero(folds[0].gradient.size());
  mean.mu = INFINITY;
  mean.certified = true;
  for (size_t k = 0; k < folds.size(); ++k) {
    const ImplicitGradient& fold = folds[k];
    LUTHIER_CHECK(fold.usable() && fold.gradient.size() == mean.gradient.size());
    const double share = weights[k] / total;
    mean.outer_value += share * fold.outer_value;
    mean.gradient += share * fold.gradient;
    mean.error_bound += share * fold.error_bound;
    mean.error_x = std::max(mean.error_x, fold.error_x);
    mean.error_q = std::max(mean.error_q, fold.error_q);
    mean.inner_gradient_norm = std::max(mean.inner_gradient_norm, fold.inner_gradient_norm);
    mean.outer_gradient_norm = std::max(mean.outer_gradient_norm, fold.outer_gradient_norm);
    mean.cg_residual = std::max(mean.cg_residual, fold.cg_residual);
    mean.cg_iterations += fold.cg_iterations;
    mean.passes += fold.passes;
    mean.mu = std::min(mean.mu, fold.mu);
    mean.certified = mean.certified && fold.certified;
    if (fold.outcome == linear::CgOutcome::kIterationLimit ||
        (fold.outcome == linear::CgOutcome::kPrecision && mean.outcome == linear::CgOutcome::kConverged)) {
      mean.outcome = fold.outcome;
    }
  }
  return mean;
}

absl::StatusOr<double> PolishInner(InnerProblem& inner, double gain, PolishLimits limits, const base::StopToken& stop,
                                   VectorXd* x, double goal, int* passes) {
  // A step solves its system to this share of the gradient, or of the goal where that is more: more digits than what
  // the goal leaves of the gradient are of no use.
  constexpr double kForcing = 1e-3, kOfGoal = 0.5;
  int unused = 0;
  int& count = passes == nullptr ? unused : *passes;
  const int before = count;
  VectorXd gradient;
  ++count;
  LUTHIER_ASSIGN_OR_RETURN(double value, inner.Value(*x, &gradient, stop));
  if (!std::isfinite(value) || !gradient.allFinite() || gradient.norm() <= goal) return gradient.norm();
  LUTHIER_RETURN_IF_ERROR(inner.SetPoint(*x, stop));
  LUTHIER_ASSIGN_OR_RETURN(const bool preconditioned, inner.PreparePreconditioner(stop));
  const std::function<VectorXd(const VectorXd&)> precondition = [&inner](const VectorXd& r) {
    return inner.Precondition(r);
  };
  const auto multiply = [&](const VectorXd& v) { return inner.HessianVector(v, stop); };
  for (int k = 0; k < limits.steps && gradient.norm() > goal; ++k) {
    const int left = limits.passes - (count - before);
    if (limits.passes > 0 && left <= 0) break;
    LUTHIER_RETURN_IF_ERROR(inner.SetPoint(*x, stop));
    linear::CgOptions options;
    options.tolerance = std::max(kForcing * gradient.norm(), kOfGoal * goal);
    if (limits.passes > 0) options.max_iterations = left;
    options.stop = stop;
    if (preconditioned) options.precondition = &precondition;
    VectorXd diagonal;
    if (!preconditioned) {
      LUTHIER_ASSIGN_OR_RETURN(diagonal, inner.HessianDiagonal(stop));
    }
    LUTHIER_ASSIGN_OR_RETURN(const linear::CgResult cg,
                             linear::SolveCg(multiply, -gradient, diagonal, VectorXd(), options));
    count += cg.iterations + 1;
    if (!cg.x.allFinite()) break;
    const double promised = -0.5 * gradient.dot(cg.x);
    const VectorXd next = *x + cg.x;
    VectorXd next_gradient;
    LUTHIER_ASSIGN_OR_RETURN(const double next_value, inner.Value(next, &next_gradient, stop));
    if (!std::isfinite(next_value) || !(next_gradient.norm() < gradient.norm())) break;
    *x = next;
    gradient = std::move(next_gradient);
    value = next_value;
    if (!(promised > gain * std::abs(value))) break;
  }
  return gradient.norm();
}

}  // namespace luthier::bilevel
