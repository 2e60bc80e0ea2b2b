#include "lib/objectives/differentiate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/bilevel/units.h"

namespace luthier::objectives {

using Eigen::VectorXd;

namespace {

constexpr int kPolishSteps = 12;
// Share of the Hessian's largest diagonal entry that the strong convexity must reach for a tolerance to be used.
constexpr double kLeastCurvature = 1e-4;
// Polishing ends with a step that promised a share this small of h; the step after it would promise its square. For a
// proven bound, which counts the rest of the gradient, it ends where rounding does.
constexpr double kPolishGain = 1e-12, kCertifiedGain = 0.0;
// Tolerance of the adjoint's residual: searches see values of five or six digits. A proven bound divides it by l2.
constexpr double kAdjointTolerance = 1e-7, kCertifiedTolerance = 1e-12;

}  // namespace

absl::StatusOr<bilevel::ImplicitGradient> DifferentiateAt(bilevel::InnerProblem& inner, bilevel::OuterLoss& outer,
                                                          const StrongConvexity& convexity,
                                                          const GradientEffort& effort, const base::StopToken& stop,
                                                          VectorXd* w, const VectorXd& warm_adjoint) {
  const auto [certified, mu] = convexity;
  bilevel::ImplicitGradientOptions options;
  options.error_bound = certified;  // Otherwise it is an estimate, which is not reported.
  options.stop = stop;
  int passes = 0;
  const bilevel::PolishLimits limits = {kPolishSteps, effort.most_passes};
  const std::optional<double>& tolerance = effort.tolerance;
  if (!tolerance) {
    const double gain = certified ? kCertifiedGain : kPolishGain;
    LUTHIER_RETURN_IF_ERROR(bilevel::PolishInner(inner, gain, limits, stop, w, 0.0, &passes).status());
    options.relative_tolerance = certified ? kCertifiedTolerance : kAdjointTolerance;
  } else {
    if (certified) {
      // Within `tolerance` of the optimum, unless the least curvature is so small that it would cost all digits.
      LUTHIER_RETURN_IF_ERROR(inner.SetPoint(*w, stop));
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd diagonal, inner.HessianDiagonal(stop));
      const double least = diagonal.size() > 0 ? kLeastCurvature * diagonal.maxCoeff() : 0.0;
      const double goal = *tolerance * std::max(mu, least);
      LUTHIER_RETURN_IF_ERROR(bilevel::PolishInner(inner, 0.0, limits, stop, w, goal, &passes).status());
    }
    options.relative_tolerance = *tolerance;
  }
  if (effort.most_passes > 0) options.max_iterations = std::max(1, effort.most_passes - passes);
  LUTHIER_ASSIGN_OR_RETURN(bilevel::ImplicitGradient gradient,
                           bilevel::ComputeImplicitGradient(inner, outer, *w, warm_adjoint, options));
  gradient.passes += passes;
  return gradient;
}

bilevel::ImplicitGradient AsImplicit(const bilevel::UnrolledGradient& unrolled) {
  bilevel::ImplicitGradient out;
  out.outer_value = unrolled.outer_value;
  out.gradient = unrolled.gradient;
  out.inner_gradient_norm = unrolled.inner_gradient_norm;
  out.outer_gradient_norm = unrolled.outer_gradient_norm;
  out.mu = out.error_x = out.error_q = out.error_bound = INFINITY;
  if (!unrolled.finite) out.outcome = linear::CgOutcome::kNonFinite;
  return out;
}

std::optional<study::Gradient> MeanGradient(const std::vector<bilevel::ImplicitGradient>& folds,
                                            const std::vector<double>& weights,
                                            const std::vector<Derivative>& derivatives, std::optional<double> tolerance,
                                            std::string* why) {
  for (const bilevel::ImplicitGradient& fold : folds) {
    switch (fold.outcome) {
      case linear::CgOutcome::kConverged:
      case linear::CgOutcome::kPrecision:
        if (fold.gradient.allFinite()) continue;
        *why = "no gradient: a derivative is not finite";
        return std::nullopt;
      case linear::CgOutcome::kIterationLimit:
        *why = "no gradient: its linear system was not solved within the limit of iterations";
        return std::nullopt;
      case linear::CgOutcome::kIndefinite:
        *why = "no gradient: the Hessian is singular or has negative curvature here";
        return std::nullopt;
      case linear::CgOutcome::kNonFinite:
        *why = "no gradient: a product with the Hessian is not finite";
        return std::nullopt;
    }
  }
  const bilevel::ImplicitGradient mean = bilevel::AverageFolds(folds, weights);
  study::Gradient gradient;
  double smallest = INFINITY;
  for (const Derivative& derivative : derivatives) {
    gradient.values.push_back(
        bilevel::UserUnitDerivative(mean.gradient[derivative.entry], derivative.value, bilevel::Coordinate::kLog));
    if (!std::isfinite(gradient.values.back())) {
      *why = "no gradient: a derivative is not finite";
      return std::nullopt;
    }
    smallest = std::min(smallest, derivative.value);
  }
  study::ImplicitSolve& solve = gradient.solve.emplace();
  solve.tolerance = tolerance.value_or(0.0);
  solve.inner_gradient_norm = mean.inner_gradient_norm;
  solve.residual = mean.cg_residual;
  solve.outer_gradient_norm = mean.outer_gradient_norm;
  solve.strong_convexity = std::isfinite(mean.mu) ? mean.mu : 0.0;
  if (std::isfinite(mean.error_bound)) solve.log_error_bound = mean.error_bound;
  solve.certified = mean.certified;
  // The bound is on the norm of all entries; it is reported for the entry that grows most.
  if (mean.certified) {
    gradient.error_bound = bilevel::UserUnitDerivative(mean.error_bound, smallest, bilevel::Coordinate::kLog);
  }
  return gradient;
}

UnrollSettings ParseUnroll(const catalogue::Settings& settings) {
  UnrollSettings out;
  out.steps = static_cast<int>(settings.Int("unroll_steps"));
  if (!settings.given("unroll")) return out;
  const std::string& method = settings.Text("unroll");
  out.method = method == "gradient_descent" ? bilevel::UnrollMethod::kGradientDescent
               : method == "heavy_ball"     ? bilevel::UnrollMethod::kHeavyBall
                                            : bilevel::UnrollMethod::kLbfgs;
  return out;
}

}  // namespace luthier::objectives
