#ifndef LUTHIER_LIB_OBJECTIVES_DIFFERENTIATE_H_
#define LUTHIER_LIB_OBJECTIVES_DIFFERENTIATE_H_

#include <Eigen/Core>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/implicit_gradient.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/bilevel/unrolled_gradient.h"
#include "lib/catalogue/settings.h"
#include "lib/study/measurement.h"

// Hypergradients as trials report them.
namespace luthier::objectives {

// Bounds on the error and the cost of a gradient.
struct GradientEffort {
  std::optional<double> tolerance;  // study::ImplicitSolve::tolerance; absent: all digits that rounding leaves.
  int most_passes = 0;  // Limit of passes over the training rows; beyond, the outcome is kIterationLimit. 0: no limit.
};

// States what is known of the inner problem's strong convexity.
struct StrongConvexity {
  bool certified = false;  // True if mu > 0 is proven; only then the error of a gradient is bounded.
  double mu = 0.0;
};

// Moves the trained weights `w` to the optimum of `inner` by Newton's steps, then differentiates `outer` there. With a
// tolerance the weights need only be that close to the optimum, if `convexity` is certified and unless mu is below 1e-4
// of the Hessian's diagonal, and the adjoint residual only that small a share of the right side. `warm_adjoint`: the
// start of the solve for the adjoint, or empty. Returns CANCELLED when stopped.
absl::StatusOr<bilevel::ImplicitGradient> DifferentiateAt(bilevel::InnerProblem& inner, bilevel::OuterLoss& outer,
                                                          const StrongConvexity& convexity,
                                                          const GradientEffort& effort, const base::StopToken& stop,
                                                          Eigen::VectorXd* w, const Eigen::VectorXd& warm_adjoint = {});

// Returns the gradient of an unrolled descent in the form of implicit ones: with neither adjoint nor error bound.
bilevel::ImplicitGradient AsImplicit(const bilevel::UnrolledGradient& unrolled);

// One derivative of a trial's gradient: the entry of a fold's gradient, and the value that the study's parameter has.
struct Derivative {
  Eigen::Index entry = 0;
  double value = 1.0;  // lambda = ln value.
};

// Returns the mean over folds, weighted by `weights`, by the parameters themselves, with the numbers that `solve` has
// of it. Returns std::nullopt if a fold's linear system was not solved or a derivative is not finite; `why` then says
// which, for people.
std::optional<study::Gradient> MeanGradient(const std::vector<bilevel::ImplicitGradient>& folds,
                                            const std::vector<double>& weights,
                                            const std::vector<Derivative>& derivatives, std::optional<double> tolerance,
                                            std::string* why);

// Note for people on a trial whose training has ended elsewhere than at a minimum.
inline constexpr char kNotAtMinimum[] = "no gradient: training has not ended at a minimum";
inline constexpr char kDearerThanTraining[] =
    "no gradient: it takes more work than the trainings it stands for; option gradient: true computes it all the same";

// Options `unroll` and `unroll_steps`.
struct UnrollSettings {
  std::optional<bilevel::UnrollMethod> method;  // If absent: training to the optimum, and implicit gradients.
  int steps = 100;
};
UnrollSettings ParseUnroll(const catalogue::Settings& settings);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_DIFFERENTIATE_H_
