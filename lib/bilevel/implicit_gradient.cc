#include "lib/bilevel/implicit_gradient.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "lib/base/check.h"
#include "lib/learn/stop.h"

namespace luthier::bilevel {
namespace {

using Eigen::VectorXd;

constexpr double kExact = 1e-13;

}  // namespace

ImplicitGradient ComputeImplicitGradient(InnerProblem& inner, OuterLoss& outer, const VectorXd& x,
                                         const VectorXd& warm_adjoint, const ImplicitGradientOptions& options) {
  LUTHIER_CHECK(x.size() == inner.dim());
  ImplicitGradient result;
  inner.StopAt(options.stop);
  outer.StopAt(options.stop);
  const auto stopped = [&] {
    if (!learn::StopRequested(options.stop)) return false;
    result.outcome = learn::CgOutcome::kStopped;
    return true;
  };
  VectorXd inner_gradient;
  inner.Value(x, &inner_gradient);
  result.inner_gradient_norm = inner_gradient.norm();
  VectorXd b;
  result.outer_value = outer.Value(x, &b);
  if (stopped()) return result;
  if (!std::isfinite(result.inner_gradient_norm) || !std::isfinite(result.outer_value) || !b.allFinite()) {
    result.outcome = learn::CgOutcome::kNonFinite;
    return result;
  }
  inner.SetPoint(x);
  const bool preconditioned = inner.PreparePreconditioner();
  if (stopped()) return result;
  const VectorXd diagonal = preconditioned ? VectorXd() : inner.HessianDiagonal();
  if (stopped()) return result;
  const double relative = preconditioned ? std::min(kExact, options.relative_tolerance) : options.relative_tolerance;
  learn::CgOptions cg_options;
  cg_options.tolerance = std::max(options.absolute_tolerance, relative * b.norm());
  cg_options.max_iterations = options.max_iterations;
  cg_options.stop = options.stop;
  const std::function<VectorXd(const VectorXd&)> precondition = [&inner](const VectorXd& r) {
    return inner.Precondition(r);
  };
  if (preconditioned) cg_options.precondition = &precondition;
  learn::CgResult cg = learn::SolveCg([&inner](const VectorXd& v) { return inner.HessianVector(v); }, b, diagonal,
                                      warm_adjoint, cg_options);
  result.outcome = cg.outcome;
  result.cg_iterations = cg.iterations;
  result.cg_residual = cg.residual_norm;
  if (!result.usable()) return result;
  result.adjoint = std::move(cg.x);
  result.gradient = -inner.CrossTransposeVector(result.adjoint);

  if (!options.error_bound) {
    result.error_x = result.error_q = result.error_bound = INFINITY;
    return result;
  }
  const InnerConstants constants = inner.Constants();
  if (stopped()) return result;
  result.mu = constants.mu;
  const double q = result.adjoint.norm();
  result.error_x = result.inner_gradient_norm / constants.mu;
  result.error_q =
      (result.cg_residual + (outer.GradientLipschitz() + constants.hessian_lipschitz * q) * result.error_x) /
      constants.mu;
  result.error_bound = constants.cross_lipschitz * result.error_x * q +
                       (inner.CrossNorm() + constants.cross_lipschitz * result.error_x) * result.error_q;
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
    mean.cg_residual = std::max(mean.cg_residual, fold.cg_residual);
    mean.cg_iterations += fold.cg_iterations;
    mean.mu = std::min(mean.mu, fold.mu);
    mean.certified = mean.certified && fold.certified;
    if (fold.outcome == learn::CgOutcome::kIterationLimit) {
      mean.outcome = fold.outcome;
    } else if (fold.outcome == learn::CgOutcome::kPrecision && mean.outcome == learn::CgOutcome::kConverged) {
      mean.outcome = fold.outcome;
    }
  }
  return mean;
}

double PolishInner(InnerProblem& inner, double gain, int max_steps, const std::atomic<bool>* stop, VectorXd* x) {
  constexpr double kForcing = 1e-3;
  inner.StopAt(stop);
  VectorXd gradient;
  double value = inner.Value(*x, &gradient);
  if (learn::StopRequested(stop) || !std::isfinite(value) || !gradient.allFinite()) return gradient.norm();
  inner.SetPoint(*x);
  const bool preconditioned = inner.PreparePreconditioner();
  const std::function<VectorXd(const VectorXd&)> precondition = [&inner](const VectorXd& r) {
    return inner.Precondition(r);
  };
  for (int k = 0; k < max_steps && gradient.norm() > 0.0; ++k) {
    inner.SetPoint(*x);
    learn::CgOptions options;
    options.tolerance = kForcing * gradient.norm();
    options.stop = stop;
    if (preconditioned) options.precondition = &precondition;
    const VectorXd diagonal = preconditioned ? VectorXd() : inner.HessianDiagonal();
    const learn::CgResult cg = learn::SolveCg([&inner](const VectorXd& v) { return inner.HessianVector(v); }, -gradient,
                                              diagonal, VectorXd(), options);
    if (learn::StopRequested(stop) || !cg.x.allFinite()) break;
    const double promised = -0.5 * gradient.dot(cg.x);
    const VectorXd next = *x + cg.x;
    VectorXd next_gradient;
    const double next_value = inner.Value(next, &next_gradient);
    if (learn::StopRequested(stop) || !std::isfinite(next_value) || !(next_gradient.norm() < gradient.norm())) break;
    *x = next;
    gradient = std::move(next_gradient);
    value = next_value;
    if (!(promised > gain * std::abs(value))) break;
  }
  return gradient.norm();
}

}  // namespace luthier::bilevel
