#include "lib/bilevel/implicit_gradient.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/learn/newton_solver.h"

namespace luthier::bilevel {
namespace {

using Eigen::VectorXd;

// The inner problem as Newton's method sees it.
class InnerFunction final : public learn::SecondOrderFunction {
 public:
  explicit InnerFunction(InnerProblem* inner) : inner_(inner) {}
  // The inner problem has the flag already.
  double Value(const VectorXd& x, VectorXd* gradient, const std::atomic<bool>*) override {
    return inner_->Value(x, gradient);
  }
  void SetPoint(const VectorXd& x, const std::atomic<bool>*) override { inner_->SetPoint(x); }
  VectorXd HessianVector(const VectorXd& v, const std::atomic<bool>*) override { return inner_->HessianVector(v); }
  VectorXd HessianDiagonal(const std::atomic<bool>*) override {
    const VectorXd diagonal = inner_->HessianDiagonal();
    return diagonal.size() == 0 ? VectorXd(VectorXd::Ones(inner_->dim())) : diagonal;
  }

 private:
  InnerProblem* const inner_;
};

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
  const VectorXd diagonal = inner.HessianDiagonal();
  if (stopped()) return result;
  learn::CgOptions cg_options;
  cg_options.tolerance = std::max(options.absolute_tolerance, options.relative_tolerance * b.norm());
  cg_options.max_iterations = options.max_iterations;
  cg_options.stop = options.stop;
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

double PolishInner(InnerProblem& inner, double tolerance, int max_steps, const std::atomic<bool>* stop, VectorXd* x) {
  inner.StopAt(stop);
  InnerFunction function(&inner);
  learn::NewtonSolver solver(0.0, 1e-4);
  learn::SolveState state = solver.Start(function, *x, stop);
  if (state == learn::SolveState::kNonFinite || state == learn::SolveState::kStopped) return solver.gradient().norm();
  VectorXd best = solver.x();
  double best_norm = solver.gradient().norm();
  for (int k = 0; k < max_steps && best_norm > tolerance && state == learn::SolveState::kRunning; ++k) {
    state = solver.Step(function, stop);
    if (solver.gradient().norm() >= best_norm) break;
    best = solver.x();
    best_norm = solver.gradient().norm();
  }
  *x = best;
  return best_norm;
}

}  // namespace luthier::bilevel
