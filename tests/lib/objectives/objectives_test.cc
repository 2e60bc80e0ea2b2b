#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "absl/status/status.h"
#include "lib/base/error.h"
#include "lib/base/stop_token.h"
#include "lib/objectives/registry.h"
#include "lib/objectives/settings.h"
#include "lib/objectives/test_functions.h"
#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  const double value = (**FindTestFunction("branin"))((Eigen::VectorXd(2) << 2, 3).finished(), &gradient);
  EXPECT_EQ(r.measurement->metrics.at("value"), value);
  EXPECT_THAT(r.measurement->gradient->values, ElementsAre(gradient[1], gradient[0]));
  EXPECT_EQ(r.measurement->gradient->error_bound, 0.0);
  EXPECT_TRUE(study::ValidateGradient(*r.measurement->gradient, 2).ok());
}

TEST(FunctionObjectiveTest, ADirectionIsAnsweredByItsSlope) {
  const std::unique_ptr<Objective> branin = MakeBranin();
  EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
  const study::Gradient full = *branin->Evaluate(context)->measurement->gradient;
  context.direction = {0.5, -2.0};
  const study::Gradient along = *branin->Evaluate(context)->measurement->gradient;
  EXPECT_THAT(along.direction, ElementsAre(0.5, -2.0));
  EXPECT_TRUE(along.values.empty());
  EXPECT_DOUBLE_EQ(along.slope, 0.5 * full.values[0] - 2.0 * full.values[1]);
  EXPECT_EQ(along.error_bound, 0.0);
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
  (**FindTestFunction("rosenbrock3"))((Eigen::VectorXd(3) << 1.5, 1.0, 0.5).finished(), &gradient);
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

TEST(FunctionObjectiveTest, PausedAndResumedGivesTheSameCurve) {
  const auto made = MakeBranin({{"steps", 9.0}, {"curve_spread", 0.5}, {"noise", 0.1}});
  const study::Parameters at = {{"x1", 2.0}, {"x2", 3.0}};
  std::vector<Measurement> whole, parts;
  const EvaluationResult straight = RunPaused(*made, at, {}, &whole);
  EXPECT_EQ(RunPaused(*made, at, {1, 3, 8}, &parts).measurement, straight.measurement);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(whole.size(), 9u);
  // A target at the end is no pause.
  EvaluationContext context = At(at);
  context.target = 9;
  EXPECT_EQ(made->Evaluate(context)->outcome, EvaluationOutcome::kComplete);
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

TEST(FunctionObjectiveTest, ACancelledRunGoesOn) {
  const auto made = MakeBranin({{"steps", 5.0}});
  EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
  base::StopSource source;
  context.stop = source.token();
  context.report = [&](const Measurement& m) {
    if (m.step == 2) source.RequestStop();
    return true;
  };
  std::string saved;
  context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
  EXPECT_EQ(made->Evaluate(context)->outcome, EvaluationOutcome::kCancelled);
  EvaluationContext again = At({{"x1", 2.0}, {"x2", 3.0}});
  again.checkpoint = saved;
  std::vector<int64_t> steps;
  again.report = [&](const Measurement& m) {
    steps.push_back(m.step);
    return true;
  };
  EXPECT_TRUE(made->Evaluate(again)->resumed);
  EXPECT_THAT(steps, ElementsAre(3, 4));
  // Another setting's, or damaged.
  again.parameters["x1"] = 2.5;
  EXPECT_FALSE(made->Evaluate(again)->resumed);
  again.parameters["x1"] = 2.0;
  again.checkpoint.pop_back();
  EXPECT_FALSE(made->Evaluate(again)->resumed);
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

TEST(FunctionObjectiveTest, ParametersThatDoNotFitAreRefused) {
  const auto made = MakeBranin();
  EXPECT_EQ(made->Evaluate(At({{"x1", 2.0}})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(made->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}, {"x3", 1.0}})).ok());
  EXPECT_FALSE(made->Evaluate(At({{"x1", 2.0}, {"x2", NAN}})).ok());
  EXPECT_FALSE(made->Evaluate(At({{"x1", 2.0}, {"x2", true}})).ok());
}

std::string Problems(const BuiltinObjective& objective, const SearchSpace& space, const MetricSpec& metric) {
  return std::string(Validate(objective, space, metric).message());
}

TEST(ValidateTest, GoodSpecsPass) {
  EXPECT_TRUE(Validate(Logistic(), L2Space(), kLoss).ok());
  for (const ObjectiveInfo& info : Objectives()) {
    BuiltinObjective objective;
    objective.model = info.model;
    if (info.needs_data) objective.data = "some/file.csv.xz";
    const MetricSpec metric = {info.metrics[0].name, info.metrics[0].goal};
    EXPECT_TRUE(Validate(objective, SuggestedSpace(info), metric).ok()) << info.model;
  }
}

TEST(ValidateTest, ModelsDataAndMetrics) {
  BuiltinObjective objective = Logistic();
  objective.model = "logistik";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss),
              AllOf(HasSubstr("objective.builtin.model"), HasSubstr("\"logistic\"?")));
  objective.model = "branin";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("did you mean \"function:branin\"?"));
  objective.model = "logistic";
  objective.data = "";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("objective.builtin.data: is required"));
  objective.data = "/etc/passwd";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("absolute"));
  objective.data = "synth:logistic?rwos=4";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("did you mean \"rows\"?"));
  EXPECT_THAT(Problems(Logistic(), L2Space(), {"validation_los", study::Goal::kMinimize}),
              AllOf(HasSubstr("metric.name"), HasSubstr("did you mean \"validation_loss\"?")));
  EXPECT_THAT(Problems(Logistic(), L2Space(), {"validation_loss", study::Goal::kMaximize}), HasSubstr("metric.goal"));
  BuiltinObjective function;
  function.model = "function:camel";
  function.data = "x.csv";
  EXPECT_THAT(Problems(function, Space({Float("x1", -1, 1), Float("x2", -1, 1)}), kValue), HasSubstr("takes no data"));
}

TEST(ValidateTest, Options) {
  EXPECT_THAT(Problems(Logistic({{"tolerence", 1e-6}}), L2Space(), kLoss), HasSubstr("did you mean \"tolerance\"?"));
  EXPECT_THAT(Problems(Logistic({{"tolerance", -1.0}}), L2Space(), kLoss),
              HasSubstr("objective.builtin.options.tolerance"));
  EXPECT_THAT(Problems(Logistic({{"tolerance", NAN}}), L2Space(), kLoss), HasSubstr("is not in"));
  EXPECT_THAT(Problems(Logistic({{"max_iterations", 2.5}}), L2Space(), kLoss), HasSubstr("not a whole number"));
  EXPECT_THAT(Problems(Logistic({{"intercept", 1.0}}), L2Space(), kLoss), HasSubstr("not true or false"));
  EXPECT_THAT(Problems(Logistic({{"solver", std::string("lbgfs")}}), L2Space(), kLoss),
              HasSubstr("did you mean \"lbfgs\"?"));
  EXPECT_THAT(Problems(Logistic({{"label", 3.0}}), L2Space(), kLoss), HasSubstr("is not text"));
  EXPECT_THAT(Problems(Logistic({{"l2", 1.0}}), L2Space(), kLoss), HasSubstr("space[0].name: l2 is held fixed"));
}

TEST(ValidateTest, SpaceAgainstTheObjective) {
  EXPECT_THAT(
      Problems(Logistic(), Space({Float("L2", 1e-3, 1)}), kLoss),
      AllOf(HasSubstr("space[0].name"), HasSubstr("it takes l2, intercept, standardize, solver, max_iterations"),
            HasSubstr("space: lacks l2")));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 0, 1)}), kLoss), HasSubstr("space[0].float.min: 0 is not in"));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 1e12)}), kLoss), HasSubstr("space[0].float.max"));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 2), Float("tolerance", 0, 0.1)}), kLoss),
              HasSubstr("space[1].name: tolerance cannot be tuned"));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 2), Float("intercept", 0, 1)}), kLoss),
              HasSubstr("space[1].float: intercept is a bool parameter, not float"));
  ParameterSpec solver;
  solver.name = "solver";
  solver.domain = study::CategoricalLabels{{"lbfgs", "sgd"}};
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 2), solver}), kLoss),
              HasSubstr("space[1].categorical.values[1]: \"sgd\" is not one of auto, lbfgs, newton_cg"));
  ParameterSpec intercept;
  intercept.name = "intercept";
  intercept.domain = study::BoolSwitch{};
  ParameterSpec conditional = Float("l2", 1, 2);
  conditional.condition = study::Condition{"intercept", {true}};
  EXPECT_THAT(Problems(Logistic(), Space({intercept, conditional}), kLoss), HasSubstr("space[1].condition"));
  BuiltinObjective function;
  function.model = "function:hartmann3";
  EXPECT_THAT(Problems(function, Space({Float("x1", 0, 1), Float("y", 0, 1)}), kValue),
              AllOf(HasSubstr("no parameter \"y\""), HasSubstr("lacks x2"), HasSubstr("lacks x3")));
}

TEST(ValidateTest, WhatReportsNoCurveCannotBeTrainedInParts) {
  study::StudySpec spec;
  BuiltinObjective function;
  function.model = "function:branin";
  spec.objective = function;
  EXPECT_TRUE(ValidateCurve(spec).ok()) << "nothing needs a curve";
  spec.resource = study::Resource{.min = 1, .max = 81, .unit = ""};
  EXPECT_THAT(std::string(ValidateCurve(spec).message()),
              HasSubstr("objective.builtin.options.steps: is 0, so function:branin reports no learning curve, which "
                        "`resource` needs: set it to 81, the resource's max, or leave `resource` out"));
  spec.resource.reset();
  spec.stopping = study::MedianStopping{};
  EXPECT_THAT(std::string(ValidateCurve(spec).message()), HasSubstr("which `stopping` needs: set it to at least 1"));
  function.options["steps"] = 9.0;
  spec.objective = function;
  EXPECT_TRUE(ValidateCurve(spec).ok());
  for (const char* model : {"logistic", "hsvm", "crf", "no such"}) {
    function.model = model;
    function.options.clear();
    spec.objective = function;
    EXPECT_TRUE(ValidateCurve(spec).ok()) << model;
  }
  spec.objective = study::CommandObjective{};
  EXPECT_TRUE(ValidateCurve(spec).ok()) << "a program may report or not";
}

TEST(ValidateTest, EveryViolationIsNamedAtOnce) {
  const absl::Status status = Validate(Logistic({{"tolerance", -1.0}, {"nonsense", 1.0}}), Space({Float("l2", 0, 1)}),
                                       {"x", study::Goal::kMinimize});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetErrorDetail(status)->violations.size(), 4u);
}

TEST(DescribeTest, SaysAllAboutEveryObjective) {
  EXPECT_EQ(Objectives().size(), 15u);
  for (const ObjectiveInfo& info : Objectives()) {
    const std::string text = Describe(info);
    EXPECT_THAT(DescribeShort(info), HasSubstr(info.model));
    EXPECT_FALSE(info.description.empty() || info.details.empty());
    for (const ParameterInfo& p : info.parameters) {
      EXPECT_FALSE(p.description.empty()) << p.name;
      EXPECT_THAT(text, HasSubstr("  " + p.name + " ("));
      EXPECT_TRUE(!p.default_value || CheckValue(p, *p.default_value, p.name).ok()) << p.name;
      if (p.tunable && p.kind == ParameterKind::kFloat) {
        EXPECT_TRUE(p.min <= p.suggested_min && p.suggested_min < p.suggested_max && p.suggested_max <= p.max);
      }
    }
    for (const MetricInfo& m : info.metrics) EXPECT_THAT(text, HasSubstr("  " + m.name + " ("));
    EXPECT_THAT(text, HasSubstr("Example"));
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 160u) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
  EXPECT_EQ(FindObjective("logistc").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace luthier::objectives
