#include "lib/objectives/function_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "absl/status/status.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/test_functions.h"
#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Objective> MakeBranin(study::Parameters options = {}) {
  BuiltinObjective objective;
  objective.model = "function:branin";
  objective.options = std::move(options);
  return Make(objective, Space({Float("x2", 0, 15), Float("x1", -5, 10)}), kValue);
}

TEST(FunctionObjectiveTest, ValueAndGradientInSpaceOrder) {
  const EvaluationResult r = MakeBranin()->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}})).value();
  ASSERT_EQ(r.outcome, EvaluationOutcome::kComplete);
  Eigen::VectorXd gradient;
  const double value = (**catalogue::FindTestFunction("branin"))((Eigen::VectorXd(2) << 2, 3).finished(), &gradient);
  EXPECT_EQ(r.measurement->metrics.at("value"), value);
  EXPECT_THAT(r.measurement->gradient->values, ElementsAre(gradient[1], gradient[0]));
  EXPECT_EQ(r.measurement->gradient->error_bound, 0.0);
  EXPECT_TRUE(study::ValidateGradient(*r.measurement->gradient, 2).ok());
}

TEST(FunctionObjectiveTest, GradientLeavesOutFixedAndSteppedParameters) {
  BuiltinObjective objective;
  objective.model = "function:rosenbrock3";
  objective.options["x3"] = 0.5;
  ParameterSpec stepped = Float("x1", -2, 2);
  std::get<FloatRange>(stepped.domain).step = 0.5;
  const auto made = Make(objective, Space({stepped, Float("x2", -2, 2)}), kValue);
  const EvaluationResult r = made->Evaluate(At({{"x1", 1.5}, {"x2", 1.0}})).value();
  Eigen::VectorXd gradient;
  (**catalogue::FindTestFunction("rosenbrock3"))((Eigen::VectorXd(3) << 1.5, 1.0, 0.5).finished(), &gradient);
  EXPECT_THAT(r.measurement->gradient->values, ElementsAre(gradient[1]));
}

TEST(FunctionObjectiveTest, NoiseFollowsTheTrialsSeedAndNotTheAttempt) {
  const auto noisy = MakeBranin({{"noise", 2.0}});
  const auto value = [&](uint64_t seed, int attempt) {
    EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
    context.seed = seed;
    context.attempt = attempt;
    return noisy->Evaluate(context)->measurement->metrics.at("value");
  };
  EXPECT_EQ(value(1, 1), value(1, 2));
  EXPECT_NE(value(1, 1), value(2, 1));
  const double exact = MakeBranin()->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}}))->measurement->metrics.at("value");
  double sum = 0.0;
  double squares = 0.0;
  for (uint64_t s = 0; s < 4000; ++s) {
    const double e = value(s, 1) - exact;
    sum += e;
    squares += e * e;
  }
  EXPECT_NEAR(sum / 4000, 0.0, 5 * 2.0 / std::sqrt(4000.0));
  EXPECT_NEAR(std::sqrt(squares / 4000), 2.0, 0.15);
  EXPECT_NE(MakeBranin({{"noise", 2.0}, {"seed", 9.0}})->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}}))->measurement->metrics,
            noisy->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}}))->measurement->metrics);
}

TEST(FunctionObjectiveTest, FailuresComeAtTheirRateAndARetryCanSucceed) {
  const auto flaky = MakeBranin({{"failure_rate", 0.3}, {"failure_kind", std::string("INFRA")}});
  int failed = 0;
  int failed_again = 0;
  for (uint64_t s = 0; s < 1000; ++s) {
    EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
    context.seed = s;
    const EvaluationResult r = flaky->Evaluate(context).value();
    if (r.outcome != EvaluationOutcome::kFailed) continue;
    ++failed;
    EXPECT_EQ(r.failure->kind, study::FailureKind::kInfra);
    EXPECT_EQ(r.failure->reason, study::failure::kInjected);
    context.attempt = 2;
    failed_again += flaky->Evaluate(context)->outcome == EvaluationOutcome::kFailed ? 1 : 0;
  }
  EXPECT_NEAR(failed, 300, 75);
  EXPECT_NEAR(failed_again, 90, 50);
  EXPECT_EQ(MakeBranin({{"failure_rate", 1.0}})->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}}))->failure->kind,
            study::FailureKind::kConfig);
}

TEST(FunctionObjectiveTest, ReportsACurveAndStopsWhenTold) {
  const auto made = MakeBranin({{"steps", 4.0}});
  EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
  std::vector<Measurement> curve;
  context.report = [&](const Measurement& m) {
    curve.push_back(m);
    return true;
  };
  const EvaluationResult r = made->Evaluate(context).value();
  ASSERT_EQ(curve.size(), 4u);
  for (size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(curve[k].step, static_cast<int64_t>(k));
    const double next = k < 3 ? curve[k + 1].metrics.at("value") : r.measurement->metrics.at("value");
    EXPECT_GT(curve[k].metrics.at("value"), next);
  }
  EXPECT_EQ(r.measurement->step, 4);
  context.report = [](const Measurement& m) { return m.step < 2; };
  const EvaluationResult stopped = made->Evaluate(context).value();
  EXPECT_EQ(stopped.outcome, EvaluationOutcome::kStopped);
  EXPECT_EQ(stopped.measurement->step, 2);
}

TEST(FunctionObjectiveTest, CurvesThatFallAtTheirOwnPaceCross) {
  const auto made = MakeBranin({{"steps", 10.0}, {"curve_spread", 1.0}});
  const auto early = [&](uint64_t seed) {
    EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
    context.seed = seed;
    context.target = 3;
    return made->Evaluate(context)->measurement->metrics.at("value");
  };
  EXPECT_NE(early(1), early(2));
  EXPECT_EQ(early(1), early(1));
}

TEST(FunctionObjectiveTest, AStopWakesALongDelay) {
  const auto slow = MakeBranin({{"delay", 80000.0}});
  base::StopSource source;
  EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
  context.stop = source.token();
  EvaluationResult result;
  std::thread evaluation([&] { result = slow->Evaluate(context).value(); });
  source.RequestStop();
  evaluation.join();
  EXPECT_EQ(result.outcome, EvaluationOutcome::kCancelled);
}

}  // namespace
}  // namespace luthier::objectives
