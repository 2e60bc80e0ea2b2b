#include "lib/bilevel/vf_idca/vf_idca.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::VectorXd;

namespace {

// Value below which all gamma count as 0.
constexpr double kDegenerate = 1e-6;
constexpr double kLoosest = 1e-3;  // Least accuracy of inexact steps.

}  // namespace

double RelativeGap(double gap, double value) {
  return gap / (1.0 + std::abs(value));
}

absl::StatusOr<VfIdcaResult> RunVfIdca(VfIdcaProblem& problem, const VfIdcaOptions& options,
                                       const std::function<bool(const VfIdcaStep&)>& report,
                                       const base::StopToken& stop) {
  VectorXd x = VectorXd::Zero(problem.variables()), r = options.start;
  LUTHIER_CHECK(r.minCoeff() > 0.0 && r.size() == problem.Penalties(x).size());
  VfIdcaResult result;
  double alpha = 1.0, gap = options.inexact ? std::max(options.gap, kLoosest) : options.gap;
  LUTHIER_ASSIGN_OR_RETURN(VfLower lower, problem.SolveLower(r, x, VectorXd(), gap, stop));
  result.best_loss = std::numeric_limits<double>::infinity();
  double last_gain = result.best_loss;
  int gain_step = 0;
  const auto keep_best = [&](int step) -> absl::Status {
    if (lower.gamma.maxCoeff() < kDegenerate) return absl::OkStatus();
    LUTHIER_ASSIGN_OR_RETURN(VectorXd model, problem.Refit(lower, stop));
    if (model.size() == 0) return absl::OkStatus();
    const double loss = problem.ValidationLoss(model);
    if (loss >= result.best_loss) return absl::OkStatus();
    if (!(loss >= (1.0 - options.least_gain) * last_gain)) {
      last_gain = loss;
      gain_step = step;
    }
    result.best_step = step;
    result.best_loss = loss;
    result.best_refit = std::move(model);
    result.best_gamma = lower.gamma;
    result.best_r = r;
    return absl::OkStatus();
  };
  LUTHIER_RETURN_IF_ERROR(keep_best(0));
  for (int k = 1; k <= options.max_steps; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(VfUpper next, problem.SolveUpper(x, r, lower, alpha, gap, stop));
    const double length = std::sqrt((next.x - x).squaredNorm() + (next.r - r).squaredNorm());
    const double size = x.squaredNorm() + r.squaredNorm();
    VfIdcaStep step;
    step.number = k;
    step.step = length / std::sqrt(size + (options.relative_step ? 1.0 : 0.0));
    const VectorXd violation = options.violation_weight * (problem.Penalties(next.x) - next.r);
    const double cut = problem.TrainLoss(next.x) - (lower.value - lower.gap) + lower.gamma.dot(next.r - r);
    step.violation = std::max({0.0, cut, violation.maxCoeff()});
    step.alpha = alpha;
    step.upper_value = next.value;
    step.lower_gap = RelativeGap(lower.gap, lower.value);
    step.upper_gap = next.gap;
    const bool last = gap <= options.gap;  // Otherwise, a step that looks like the last is made again at full accuracy.
    if (options.inexact) {
      gap = std::max(options.gap, std::min(kLoosest, 0.1 * step.step * step.step));
      if (step.step < options.tolerance && step.violation < options.tolerance) gap = options.gap;
    }
    // With inexact steps only the last one counts.
    result.worst_gap = std::max({options.inexact ? 0.0 : result.worst_gap, step.lower_gap, step.upper_gap});
    x = std::move(next.x);
    r = std::move(next.r);
    LUTHIER_ASSIGN_OR_RETURN(lower, problem.SolveLower(r, x, lower.gamma, gap, stop));
    step.validation_loss = problem.ValidationLoss(x);
    step.train_loss = problem.TrainLoss(x);
    step.refit_validation_loss = problem.ValidationLoss(lower.x);
    LUTHIER_RETURN_IF_ERROR(keep_best(k));
    step.gamma = lower.gamma;
    step.r = r;
    result.steps = k;
    result.converged = last && step.step < options.tolerance && step.violation < options.tolerance;
    result.patient = options.patience == 0 || k - gain_step < options.patience;
    if ((report && !report(step)) || result.converged || !result.patient) break;
    if (step.step * alpha <= options.alpha_share * std::min(1.0, alpha * step.violation)) {
      alpha += options.alpha_step;
    }
  }
  result.x = std::move(x);
  result.r = std::move(r);
  result.gamma = std::move(lower.gamma);
  result.degenerate = result.gamma.maxCoeff() < kDegenerate;
  result.refit = std::move(lower.x);
  result.refit_gap = RelativeGap(lower.gap, lower.value);
  result.worst_gap = std::max(result.worst_gap, result.refit_gap);
  return result;
}

}  // namespace luthier::bilevel
