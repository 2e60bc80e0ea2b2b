// Gradients that are solved to a tolerance: what is promised, and what is said of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using Vec = std::vector<double>;

constexpr size_t kColumns = 6;

SearchSpace Strengths() {
  ParameterSpec p = Float("l2", 1e-4, 1e4, study::Scale::kLog);
  p.count = static_cast<int>(kColumns);
  return Space({p});
}

BuiltinObjective Spec(study::Parameters options, int classes) {
  BuiltinObjective spec;
  spec.model = "logistic";
  spec.data = "synth:logistic?rows=200&cols=6&seed=7&noise=0.2&classes=" + std::to_string(classes);
  spec.split.seed = 1;
  spec.options = std::move(options);
  return spec;
}

Measurement Solve(const Objective& objective, std::optional<double> tolerance) {
  EvaluationContext context = At({{"l2", Vec{0.1, 1, 10, 0.5, 2, 5}}});
  context.tolerance = tolerance;
  return *objective.Evaluate(context)->measurement;
}

// By the logarithms of the strengths, in which tolerances are.
double Distance(const Measurement& a, const Measurement& b) {
  const Vec l2 = {0.1, 1, 10, 0.5, 2, 5};
  double sum = 0.0;
  for (size_t k = 0; k < kColumns; ++k) sum += std::pow(l2[k] * (a.gradient->values[k] - b.gradient->values[k]), 2);
  return std::sqrt(sum);
}

TEST(ToleranceTest, ProvenBoundsHoldAtEveryTolerance) {
  for (const int classes : {2, 3}) {
    for (const char* solver : {"lbfgs", "newton_cg"}) {
      const std::unique_ptr<Objective> made =
          Make(Spec({{"intercept", false}, {"solver", std::string(solver)}}, classes), Strengths(), kLoss);
      const Measurement exact = Solve(*made, std::nullopt);
      ASSERT_TRUE(exact.gradient->solve);
      EXPECT_EQ(exact.gradient->solve->tolerance, 0.0);
      EXPECT_EQ(exact.training->outcome, study::TrainingOutcome::kConverged);
      for (const double tolerance : {10.0, 0.1, 1e-2, 1e-4}) {
        SCOPED_TRACE(::testing::Message() << classes << " " << solver << " " << tolerance);
        const Measurement m = Solve(*made, tolerance);
        ASSERT_TRUE(m.gradient && m.gradient->solve);
        const study::ImplicitSolve& solve = *m.gradient->solve;
        EXPECT_EQ(solve.tolerance, tolerance);
        EXPECT_TRUE(solve.certified);
        EXPECT_DOUBLE_EQ(solve.strong_convexity, 0.1);
        EXPECT_LE(solve.inner_gradient_norm, tolerance * solve.strong_convexity);
        EXPECT_LE(solve.residual, tolerance * solve.outer_gradient_norm * (1 + 1e-9));
        EXPECT_LE(Distance(m, exact), *solve.log_error_bound + exact.gradient->solve->log_error_bound.value());
        EXPECT_EQ(m.training->outcome, study::TrainingOutcome::kTarget);
      }
      EXPECT_LT(Distance(Solve(*made, 1e-6), exact), 1e-5);
    }
  }
}

TEST(ToleranceTest, WithoutAProofItIsAnEstimateAndSaysSo) {
  const std::unique_ptr<Objective> made = Make(Spec({}, 2), Strengths(), kLoss);
  const Measurement m = Solve(*made, 1e-3);
  EXPECT_FALSE(m.gradient->solve->certified);
  EXPECT_FALSE(m.gradient->solve->log_error_bound);
  EXPECT_FALSE(m.gradient->error_bound);
  EXPECT_LT(Distance(m, Solve(*made, std::nullopt)), 1e-2);
}

TEST(ToleranceTest, LooserIsCheaperAndWithoutAGradientNothingIsLoose) {
  const std::unique_ptr<Objective> made =
      Make(Spec({{"intercept", false}, {"solver", std::string("lbfgs")}}, 2), Strengths(), kLoss);
  EXPECT_LT(Solve(*made, 0.1).step, Solve(*made, std::nullopt).step);
  const std::unique_ptr<Objective> none =
      Make(Spec({{"intercept", false}, {"solver", std::string("lbfgs")}, {"gradient", false}}, 2), Strengths(), kLoss);
  EXPECT_EQ(Solve(*none, 0.1), Solve(*none, std::nullopt));
}

}  // namespace
}  // namespace luthier::objectives
