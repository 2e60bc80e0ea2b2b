#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "lib/base/error.h"
#include "lib/objectives/registry.h"
#include "lib/objectives/settings.h"
#include "lib/objectives/test_functions.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using study::BuiltinObjective;
using study::FloatRange;
using study::Measurement;
using study::MetricSpec;
using study::ParameterSpec;
using study::SearchSpace;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParameterSpec Float(const std::string& name, double min, double max, study::Scale scale = study::Scale::kLinear) {
  ParameterSpec p;
  p.name = name;
  FloatRange range;
  range.min = min;
  range.max = max;
  range.scale = scale;
  p.domain = range;
  return p;
}

SearchSpace Space(std::vector<ParameterSpec> parameters) {
  return SearchSpace::Create(std::move(parameters)).value();
}

SearchSpace L2Space() {
  return Space({Float("l2", 1e-4, 1e4, study::Scale::kLog)});
}

BuiltinObjective Logistic(study::Parameters options = {}, int folds = 0) {
  BuiltinObjective objective;
  objective.model = "logistic";
  objective.data = "synth:logistic?rows=200&cols=10&seed=3&noise=0.2";
  objective.split.folds = folds;
  objective.split.seed = 4;
  objective.options = std::move(options);
  return objective;
}

const MetricSpec kLoss = {"validation_loss", study::Goal::kMinimize};
const MetricSpec kValue = {"value", study::Goal::kMinimize};

std::unique_ptr<Objective> Make(const BuiltinObjective& objective, const SearchSpace& space, const MetricSpec& metric) {
  absl::StatusOr<std::unique_ptr<Objective>> made = CreateObjective(objective, space, metric, nullptr);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

EvaluationContext At(study::Parameters parameters) {
  EvaluationContext context;
  context.parameters = std::move(parameters);
  return context;
}

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

// Runs with a pause at each of `targets`, each run from the checkpoint of the one before; the last runs to the end.
// Appends the points to `curve`.
EvaluationResult RunPaused(const Objective& objective, const study::Parameters& parameters,
                           const std::vector<int64_t>& targets, std::vector<Measurement>* curve) {
  std::string saved;
  int64_t paused_at = 0;
  for (size_t k = 0;; ++k) {
    EvaluationContext context = At(parameters);
    context.attempt = static_cast<int32_t>(k) + 1;
    context.target = k < targets.size() ? targets[k] : 0;
    context.checkpoint = saved;
    int64_t started = -1;
    context.started = [&](bool resumed, int64_t step) {
      EXPECT_EQ(resumed, k > 0);
      started = step;
    };
    context.report = [&](const Measurement& m) {
      curve->push_back(m);
      return true;
    };
    context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
    const EvaluationResult result = objective.Evaluate(context).value();
    EXPECT_EQ(started, paused_at);
    EXPECT_EQ(result.resumed, k > 0);
    if (k == targets.size()) return result;
    EXPECT_EQ(result.outcome, EvaluationOutcome::kPaused);
    EXPECT_EQ(result.measurement->step, targets[k]);
    EXPECT_EQ(*result.measurement, curve->back());
    paused_at = targets[k];
  }
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
  Cancellation cancellation;
  context.cancellation = &cancellation;
  context.report = [&](const Measurement& m) {
    if (m.step == 2) cancellation.Cancel();
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

TEST(FunctionObjectiveTest, CancellationWakesALongDelay) {
  const auto slow = MakeBranin({{"delay", 80000.0}});
  Cancellation cancellation;
  EvaluationContext context = At({{"x1", 2.0}, {"x2", 3.0}});
  context.cancellation = &cancellation;
  EvaluationResult result;
  std::thread evaluation([&] { result = slow->Evaluate(context).value(); });
  cancellation.Cancel();
  evaluation.join();
  EXPECT_EQ(result.outcome, EvaluationOutcome::kCancelled);
  EXPECT_TRUE(cancellation.WaitFor(absl::Hours(1)));
}

TEST(FunctionObjectiveTest, ParametersThatDoNotFitAreRefused) {
  const auto made = MakeBranin();
  EXPECT_EQ(made->Evaluate(At({{"x1", 2.0}})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(made->Evaluate(At({{"x1", 2.0}, {"x2", 3.0}, {"x3", 1.0}})).ok());
  EXPECT_FALSE(made->Evaluate(At({{"x1", 2.0}, {"x2", NAN}})).ok());
  EXPECT_FALSE(made->Evaluate(At({{"x1", 2.0}, {"x2", true}})).ok());
}

TEST(LogisticObjectiveTest, GradientMatchesDifferencesOfTheReportedLoss) {
  for (const int folds : {0, 4}) {
    for (const bool intercept : {false, true}) {
      for (const char* solver : {"lbfgs", "newton_cg"}) {
        const auto made =
            Make(Logistic({{"intercept", intercept}, {"solver", std::string(solver)}}, folds), L2Space(), kLoss);
        for (const double l2 : {0.01, 3.0}) {
          const EvaluationResult r = made->Evaluate(At({{"l2", l2}})).value();
          ASSERT_EQ(r.outcome, EvaluationOutcome::kComplete);
          ASSERT_TRUE(r.measurement->gradient);
          ASSERT_EQ(r.measurement->gradient->values.size(), 1u);
          const auto loss = [&](double at) {
            return made->Evaluate(At({{"l2", at}}))->measurement->metrics.at("validation_loss");
          };
          const double h = 1e-5 * l2;
          const double numeric = (loss(l2 + h) - loss(l2 - h)) / (2.0 * h);
          EXPECT_NEAR(r.measurement->gradient->values[0], numeric, 1e-5 * std::abs(numeric) + 1e-10 / l2)
              << folds << intercept << solver << l2;
          EXPECT_EQ(r.measurement->gradient->error_bound.has_value(), !intercept);
          if (intercept) continue;
          EXPECT_LT(*r.measurement->gradient->error_bound, 1e-4 * std::abs(numeric));
        }
      }
    }
  }
}

TEST(LogisticObjectiveTest, MetricsAreSensible) {
  const auto made = Make(Logistic(), L2Space(), kLoss);
  const Measurement weak = *made->Evaluate(At({{"l2", 1e-3}}))->measurement;
  const Measurement strong = *made->Evaluate(At({{"l2", 1e4}}))->measurement;
  EXPECT_LT(weak.metrics.at("train_loss"), weak.metrics.at("validation_loss"));
  EXPECT_NEAR(strong.metrics.at("train_loss"), std::log(2.0), 0.02);
  EXPECT_GT(weak.metrics.at("validation_accuracy"), 0.6);
  EXPECT_GT(weak.step, 3);
}

TEST(LogisticObjectiveTest, ADirectionIsAnsweredByItsSlope) {
  const std::unique_ptr<Objective> logistic = Make(Logistic({{"intercept", false}}), L2Space(), kLoss);
  EvaluationContext context = At({{"l2", 3.0}});
  const study::Gradient full = *logistic->Evaluate(context)->measurement->gradient;
  context.direction = {-2.0};
  const study::Gradient along = *logistic->Evaluate(context)->measurement->gradient;
  EXPECT_THAT(along.direction, ElementsAre(-2.0));
  EXPECT_EQ(along.slope, -2.0 * full.values[0]);
  EXPECT_EQ(along.error_bound, 2.0 * *full.error_bound);
}

TEST(LogisticObjectiveTest, NoGradientWhereThereIsNone) {
  const study::Parameters l2 = {{"l2", 0.1}};
  const auto has = [&](const Objective& o) { return o.Evaluate(At(l2))->measurement->gradient.has_value(); };
  EXPECT_TRUE(has(*Make(Logistic(), L2Space(), kLoss)));
  EXPECT_FALSE(has(*Make(Logistic({{"gradient", false}}), L2Space(), kLoss)));
  EXPECT_FALSE(has(*Make(Logistic({{"max_iterations", 2.0}}), L2Space(), kLoss)));
  EXPECT_FALSE(has(*Make(Logistic(), L2Space(), {"validation_accuracy", study::Goal::kMaximize})));
  EXPECT_FALSE(has(*Make(Logistic(), L2Space(), {"train_loss", study::Goal::kMinimize})));
  ParameterSpec stepped = Float("l2", 0.1, 1);
  std::get<FloatRange>(stepped.domain).step = 0.1;
  EXPECT_FALSE(has(*Make(Logistic(), Space({stepped}), kLoss)));
}

TEST(LogisticObjectiveTest, TunesSwitchesAndChoices) {
  ParameterSpec intercept;
  intercept.name = "intercept";
  intercept.domain = study::BoolSwitch{};
  ParameterSpec solver;
  solver.name = "solver";
  solver.domain = study::CategoricalLabels{{"newton_cg", "lbfgs"}};
  ParameterSpec iterations;
  iterations.name = "max_iterations";
  iterations.domain = study::IntRange{.min = 1, .max = 1000};
  const auto made = Make(Logistic(), Space({intercept, solver, iterations, Float("l2", 1e-3, 1e3)}), kLoss);
  const auto loss = [&](bool with, const char* which) {
    const EvaluationResult r =
        made->Evaluate(
                At({{"intercept", with}, {"solver", std::string(which)}, {"max_iterations", 500.0}, {"l2", 1.0}}))
            .value();
    EXPECT_EQ(r.measurement->gradient->values.size(), 1u);
    return r.measurement->metrics.at("validation_loss");
  };
  EXPECT_NEAR(loss(true, "lbfgs"), loss(true, "newton_cg"), 1e-9);
  EXPECT_NE(loss(true, "lbfgs"), loss(false, "lbfgs"));
}

TEST(LogisticObjectiveTest, CurveHasACommonAxisAndEndsEarlyWhenTold) {
  const auto made = Make(Logistic({{"report_every", 3.0}}, 3), L2Space(), kLoss);
  EvaluationContext context = At({{"l2", 0.01}});
  std::vector<int64_t> steps;
  context.report = [&](const Measurement& m) {
    steps.push_back(m.step);
    EXPECT_EQ(m.metrics.size(), 3u);
    return true;
  };
  const EvaluationResult with = made->Evaluate(context).value();
  ASSERT_GE(steps.size(), 3u);
  for (size_t k = 0; k < steps.size(); ++k) EXPECT_EQ(steps[k], static_cast<int64_t>(3 * k));
  EXPECT_GE(with.measurement->step, steps.back());
  // Reports change nothing.
  EXPECT_EQ(with.measurement, made->Evaluate(At({{"l2", 0.01}}))->measurement);
  context.report = [](const Measurement& m) { return m.step < 6; };
  const EvaluationResult stopped = made->Evaluate(context).value();
  EXPECT_EQ(stopped.outcome, EvaluationOutcome::kStopped);
  EXPECT_EQ(stopped.measurement->step, 6);
}

TEST(LogisticObjectiveTest, CancelledAndResumedGivesTheSameBits) {
  const auto made = Make(Logistic({{"checkpoint_every", 2.0}, {"report_every", 1.0}}, 3), L2Space(), kLoss);
  const EvaluationResult whole = made->Evaluate(At({{"l2", 0.05}})).value();
  for (const int64_t at : {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{7}}) {
    Cancellation cancellation;
    EvaluationContext context = At({{"l2", 0.05}});
    context.cancellation = &cancellation;
    std::string saved;
    int saves = 0;
    context.report = [&](const Measurement& m) {
      if (m.step == at) cancellation.Cancel();
      return true;
    };
    context.save_checkpoint = [&](std::string bytes) {
      saved = std::move(bytes);
      ++saves;
    };
    ASSERT_EQ(made->Evaluate(context)->outcome, EvaluationOutcome::kCancelled);
    EXPECT_GE(saves, 1);
    EvaluationContext again = At({{"l2", 0.05}});
    again.attempt = 2;
    again.checkpoint = saved;
    int64_t first_step = -1;
    again.report = [&](const Measurement& m) {
      if (first_step < 0) first_step = m.step;
      return true;
    };
    const EvaluationResult resumed = made->Evaluate(again).value();
    EXPECT_TRUE(resumed.resumed);
    EXPECT_EQ(resumed.measurement, whole.measurement);
    EXPECT_GT(first_step, at);
    // The same bytes for another strength, or damaged: ignored.
    again.parameters = {{"l2", 0.06}};
    EXPECT_FALSE(made->Evaluate(again)->resumed);
    again.parameters = {{"l2", 0.05}};
    again.checkpoint[saved.size() / 2] = static_cast<char>(~again.checkpoint[saved.size() / 2]);
    const EvaluationResult damaged = made->Evaluate(again).value();
    EXPECT_FALSE(damaged.resumed);
    EXPECT_EQ(damaged.measurement, whole.measurement);
  }
}

TEST(LogisticObjectiveTest, PausedAndResumedGivesTheSameBits) {
  for (const char* solver : {"lbfgs", "newton_cg"}) {
    for (const int folds : {0, 3}) {
      const auto made =
          Make(Logistic({{"solver", std::string(solver)}, {"report_every", 1.0}}, folds), L2Space(), kLoss);
      const study::Parameters at = {{"l2", 0.05}};
      std::vector<Measurement> whole, parts;
      const EvaluationResult straight = RunPaused(*made, at, {}, &whole);
      ASSERT_GE(straight.measurement->step, 4) << solver;
      EXPECT_EQ(RunPaused(*made, at, {1, 3}, &parts).measurement, straight.measurement);
      EXPECT_EQ(parts, whole);
    }
  }
}

TEST(LogisticObjectiveTest, TheTargetsPointIsReportedWhateverTheOthers) {
  const auto made = Make(Logistic({{"report_every", 4.0}}), L2Space(), kLoss);
  std::vector<Measurement> curve;
  RunPaused(*made, {{"l2", 0.05}}, {3}, &curve);
  ASSERT_GE(curve.size(), 3u);
  EXPECT_EQ(curve[0].step, 0);
  EXPECT_EQ(curve[1].step, 3);
  EXPECT_EQ(curve[2].step, 4);
}

TEST(LogisticObjectiveTest, OneThatEndsBeforeItsTargetIsComplete) {
  const auto made = Make(Logistic(), L2Space(), kLoss);
  EvaluationContext context = At({{"l2", 0.05}});
  const EvaluationResult straight = made->Evaluate(context).value();
  context.target = straight.measurement->step + 1;
  const EvaluationResult again = made->Evaluate(context).value();
  EXPECT_EQ(again.outcome, EvaluationOutcome::kComplete);
  EXPECT_EQ(again.measurement, straight.measurement);
}

TEST(LogisticObjectiveTest, SharedByThreads) {
  const auto made = Make(Logistic(), L2Space(), kLoss);
  std::vector<std::thread> threads;
  std::vector<Measurement> results(4);
  for (size_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] { results[k] = *made->Evaluate(At({{"l2", 0.5}}))->measurement; });
  }
  for (std::thread& t : threads) t.join();
  for (const Measurement& m : results) EXPECT_EQ(m, results[0]);
}

TEST(LogisticObjectiveTest, FilesAreReadBelowTheRoot) {
  testing::TemporaryDirectory dir;
  std::string text = "x;kind\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i % 7) + (i % 3 == 0 ? ";yes\n" : ";no\n");
  dir.Write("a.csv", text);
  dir.Write("one.csv", "x,kind\n1,a\n2,a\n");
  const learn::DataRoot root = learn::DataRoot::Open(dir.path()).value();
  BuiltinObjective objective = Logistic({{"label", std::string("kind")}});
  objective.data = "a.csv";
  const auto made = CreateObjective(objective, L2Space(), kLoss, &root);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->Evaluate(At({{"l2", 1.0}}))->outcome, EvaluationOutcome::kComplete);
  objective.data = "../a.csv";
  EXPECT_EQ(CreateObjective(objective, L2Space(), kLoss, &root).status().code(), absl::StatusCode::kInvalidArgument);
  objective.data = "none.csv";
  EXPECT_EQ(CreateObjective(objective, L2Space(), kLoss, &root).status().code(), absl::StatusCode::kNotFound);
  objective.data = "one.csv";
  EXPECT_THAT(std::string(CreateObjective(objective, L2Space(), kLoss, &root).status().message()),
              HasSubstr("two classes"));
}

TEST(LogisticObjectiveTest, DivergenceIsAFailureOfTheSetting) {
  testing::TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 20; ++i) text += (i % 2 == 0 ? "1e308,-1e308,0\n" : "-1e308,1e308,1\n");
  dir.Write("huge.csv", text);
  const learn::DataRoot root = learn::DataRoot::Open(dir.path()).value();
  BuiltinObjective objective = Logistic({{"standardize", false}});
  objective.data = "huge.csv";
  const auto made = CreateObjective(objective, L2Space(), kLoss, &root);
  ASSERT_TRUE(made.ok()) << made.status();
  const EvaluationResult r = (*made)->Evaluate(At({{"l2", 1.0}})).value();
  ASSERT_EQ(r.outcome, EvaluationOutcome::kFailed);
  EXPECT_EQ(r.failure->kind, study::FailureKind::kConfig);
  EXPECT_EQ(r.failure->reason, study::failure::kDiverged);
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
              HasSubstr("space[1].categorical.values[1]: \"sgd\" is not one of lbfgs, newton_cg"));
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
