#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_root.h"
#include "lib/linear/trainer.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  const auto made = Make(Logistic({{"solver", std::string("lbfgs")}, {"report_every", 3.0}}, 3), L2Space(), kLoss);
  EvaluationContext context = At({{"l2", 0.01}});
  std::vector<int64_t> steps;
  context.report = [&](const Measurement& m) {
    steps.push_back(m.step);
    EXPECT_EQ(m.metrics.size(), 3u);
    return true;
  };
  const EvaluationResult with = made->Evaluate(context).value();
  ASSERT_GE(steps.size(), 3u);
  EXPECT_EQ(steps[0], 0);
  for (size_t k = 1; k < steps.size(); ++k) {
    EXPECT_EQ(steps[k] % 3, 0);
    EXPECT_GT(steps[k], steps[k - 1]);
  }
  EXPECT_GE(with.measurement->step, steps.back());
  // Reports change nothing.
  EXPECT_EQ(with.measurement, made->Evaluate(At({{"l2", 0.01}}))->measurement);
  context.report = [](const Measurement& m) { return m.step < 6; };
  const EvaluationResult stopped = made->Evaluate(context).value();
  EXPECT_EQ(stopped.outcome, EvaluationOutcome::kStopped);
  EXPECT_EQ(stopped.measurement->step, 6);
}

// Solvers whose iterations cost very different things have their points on one axis: what is there is what one gets for
// so many passes.
TEST(LogisticObjectiveTest, AStepIsAPassOverTheRows) {
  for (const char* solver : {"lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
    BuiltinObjective objective =
        Logistic({{"solver", std::string(solver)}, {"penalize_intercept", true}, {"report_every", 1.0}});
    const auto made = Make(objective, L2Space(), kLoss);
    EvaluationContext context = At({{"l2", 0.5}});
    std::vector<int64_t> steps;
    context.report = [&](const Measurement& m) {
      steps.push_back(m.step);
      return true;
    };
    const int64_t last = made->Evaluate(context)->measurement->step;
    ASSERT_GE(steps.size(), 3u) << solver;
    EXPECT_EQ(steps[0], 0);
    EXPECT_GE(last, steps.back());
    // The start is one pass, and an iteration of a line search another.
    EXPECT_GE(steps[1], 2) << solver;
    const auto iterations = static_cast<double>(steps.size() - 1);
    // Each of Newton's iterations: a gradient, and products or a Hessian. Rows have 10 entries: 11 / 4 passes.
    if (solver == std::string("newton_cg")) {
      EXPECT_GE(static_cast<double>(last), 3.0 * iterations);
    }
    if (solver == std::string("newton_cholesky")) {
      // A step with a factor of its own is 3.75, one with that of a step before at most as much.
      EXPECT_LE(static_cast<double>(steps.back()), 1.0 + 3.75 * iterations);
      EXPECT_GT(static_cast<double>(steps.back()), 1.0 + 2.0 * iterations);
    }
  }
}

// Goes on a second at each look.
class TickingClock final : public base::Clock {
 public:
  absl::Duration Monotonic() const override { return absl::Seconds(++ticks_); }
  absl::Time Wall() const override { return absl::UnixEpoch(); }

 private:
  mutable std::atomic<int> ticks_{0};
};

TEST(LogisticObjectiveTest, EveryTrainingSaysHowItEnded) {
  const auto report = [](const study::Parameters& options, double l2, int folds = 0) {
    const auto made = Make(Logistic(options, folds), L2Space(), kLoss);
    return made->Evaluate(At({{"l2", l2}}))->measurement->training;
  };
  using enum study::TrainingOutcome;
  for (const double l2 : {1e-10, 1e-4, 1.0, 1e10}) {
    const auto training = report({}, l2, 3);
    ASSERT_TRUE(training);
    EXPECT_EQ(training->outcome, kConverged) << l2;
    EXPECT_LE(*training->gradient_norm, 1e-8) << l2;
  }
  // With everything penalised the bound comes for nothing.
  EXPECT_LE(*report({{"penalize_intercept", true}}, 1.0)->duality_gap, linear::LinearTrainOptions().gap_share);
  EXPECT_EQ(report({{"tolerance", 0.0}, {"solver", std::string("newton_cholesky")}}, 1.0)->outcome, kPrecision);
  // The user's limit, and one that nobody chose.
  EXPECT_EQ(report({{"max_iterations", 2.0}}, 1.0)->outcome, kTarget);
  const auto limit = report({{"solver", std::string("svrg")}, {"standardize", false}}, 1e9);
  EXPECT_EQ(limit->outcome, kLimit);
  EXPECT_GT(*limit->gradient_norm, 1e-8);
}

TEST(LogisticObjectiveTest, TheGradientIsComputedWhereItIsRead) {
  const TickingClock clock;
  const auto evaluate = [&](const study::Parameters& options, GradientUse use) {
    EvaluationContext context = At({{"l2", 0.1}});
    context.gradient = use;
    context.clock = &clock;
    return *Make(Logistic(options), L2Space(), kLoss)->Evaluate(context)->measurement;
  };
  const Measurement none = evaluate({}, GradientUse::kNone);
  EXPECT_FALSE(none.gradient);
  EXPECT_FALSE(none.gradient_seconds);
  const Measurement full = evaluate({}, GradientUse::kFull);
  ASSERT_TRUE(full.gradient);
  EXPECT_EQ(full.gradient_seconds, 1.0);
  EXPECT_FALSE(evaluate({{"gradient", false}}, GradientUse::kFull).gradient);
  EXPECT_TRUE(evaluate({{"gradient", true}}, GradientUse::kNone).gradient);
}

// With ten classes the linear system of one derivative takes more passes than training does.
TEST(LogisticObjectiveTest, AGradientThatIsDearerThanTrainingIsLeftOut) {
  const auto evaluate = [](const study::Parameters& options, const study::Parameters& at, study::SearchSpace space,
                           bool alone = false) {
    BuiltinObjective logistic = Logistic(options, 3);
    logistic.data = "synth:logistic?rows=300&cols=60&classes=10&noise=0.3&seed=4";
    EvaluationContext context = At(at);
    context.gradient = GradientUse::kFull;
    context.by_gradients_alone = alone;
    return Make(logistic, std::move(space), kLoss)->Evaluate(context).value();
  };
  const study::Parameters one = {{"l2", 1e-4}};
  const EvaluationResult left_out = evaluate({}, one, L2Space());
  EXPECT_FALSE(left_out.measurement->gradient);
  EXPECT_THAT(left_out.note, HasSubstr("no gradient: it takes more work than the trainings it stands for"));
  const EvaluationResult whole = evaluate({{"gradient", true}}, one, L2Space());
  EXPECT_TRUE(whole.measurement->gradient) << whole.note;
  EXPECT_NEAR(left_out.measurement->metrics.at(kLoss.name), whole.measurement->metrics.at(kLoss.name), 1e-4);
  EXPECT_LT(left_out.passes, 0.8 * whole.passes);
  EXPECT_TRUE(evaluate({}, one, L2Space(), true).measurement->gradient);
}

// A stop that comes before the held-out rows are measured: the point is not made now, but first when the trial goes on.
TEST(LogisticObjectiveTest, NoMetricsAreComputedAfterAStop) {
  for (const char* classes : {"2", "3"}) {
    BuiltinObjective objective = Logistic({{"solver", std::string("lbfgs")}, {"report_every", 1.0}});
    objective.data += std::string("&classes=") + classes;
    const auto made = Make(objective, L2Space(), kLoss);
    std::vector<Measurement> whole, parts;
    const auto record = [](std::vector<Measurement>* points) {
      return [points](const Measurement& m) {
        points->push_back(m);
        return true;
      };
    };
    EvaluationContext context = At({{"l2", 0.05}});
    context.report = record(&whole);
    const EvaluationResult straight = made->Evaluate(context).value();
    base::StopSource source;
    std::string saved;
    context.report = record(&parts);
    context.stop = source.token();
    context.first_gradient = [&] { source.RequestStop(); };
    context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
    EXPECT_EQ(made->Evaluate(context)->outcome, EvaluationOutcome::kCancelled);
    EXPECT_TRUE(parts.empty());
    context.stop = {};
    context.first_gradient = nullptr;
    context.checkpoint = saved;
    const EvaluationResult resumed = made->Evaluate(context).value();
    EXPECT_TRUE(resumed.resumed);
    EXPECT_EQ(resumed.measurement, straight.measurement);
    EXPECT_EQ(parts, whole);
  }
}

TEST(LogisticObjectiveTest, AllSolversGiveTheSameMeasurement) {
  for (const bool intercept : {false, true}) {
    for (const bool penalize : {false, true}) {
      study::Parameters options = {
          {"intercept", intercept}, {"penalize_intercept", penalize}, {"tolerance", 1e-9}, {"max_iterations", 20000.0}};
      const auto with = [&](const char* name, study::ParameterValue value) {
        study::Parameters changed = options;
        changed[name] = std::move(value);
        return changed;
      };
      const auto reference = Make(Logistic(with("solver", std::string("lbfgs")), 3), L2Space(), kLoss);
      const EvaluationResult expected = reference->Evaluate(At({{"l2", 2.0}})).value();
      EXPECT_EQ(expected.note, "");
      // Everything penalised: proven.
      EXPECT_EQ(expected.measurement->gradient->error_bound.has_value(), !intercept || penalize);
      for (const char* solver : {"auto", "newton_cg", "newton_cholesky", "svrg", "dual"}) {
        const auto made = Make(Logistic(with("solver", std::string(solver)), 3), L2Space(), kLoss);
        const absl::StatusOr<EvaluationResult> result = made->Evaluate(At({{"l2", 2.0}}));
        ASSERT_TRUE(result.ok()) << solver << result.status();
        ASSERT_EQ(result->outcome, EvaluationOutcome::kComplete) << solver;
        for (const auto& [name, value] : expected.measurement->metrics) {
          EXPECT_NEAR(result->measurement->metrics.at(name), value, 1e-9) << solver << " " << name;
        }
        EXPECT_NEAR(result->measurement->gradient->values[0], expected.measurement->gradient->values[0], 1e-9);
        EXPECT_EQ(result->note.empty(), solver != std::string("auto"));
      }
    }
  }
}

TEST(LogisticObjectiveTest, AutoSaysWhatItChoseAndWhy) {
  const auto two = Make(Logistic(), L2Space(), kLoss);
  EXPECT_THAT(
      two->Evaluate(At({{"l2", 1.0}}))->note,
      HasSubstr("solver auto is lbfgs: 150 rows, 10 columns, 10 entries a row, l2 1; estimated passes: lbfgs "));
  BuiltinObjective wide = Logistic({{"intercept", false}});
  wide.data = "synth:logistic?rows=300&cols=2000&density=0.01&seed=1";
  EXPECT_THAT(Make(wide, L2Space(), kLoss)->Evaluate(At({{"l2", 1.0}}))->note, HasSubstr("solver auto is dual"));
  BuiltinObjective many = Logistic();
  many.data = "synth:logistic?rows=300&cols=5&classes=4";
  EXPECT_THAT(Make(many, L2Space(), kLoss)->Evaluate(At({{"l2", 1.0}}))->note,
              ContainsRegex("solver auto is lbfgs: [0-9]+ rows, 5 columns, 4 classes, l2 1; estimated passes: lbfgs "));
  // At small penalties the classes are all but separable.
  EXPECT_THAT(Make(many, L2Space(), kLoss)->Evaluate(At({{"l2", 1e-6}}))->note,
              HasSubstr("solver auto is newton_cholesky"));
}

TEST(LogisticObjectiveTest, BinaryOptionsAreRefusedForMoreClasses) {
  BuiltinObjective many = Logistic({{"solver", std::string("dual")}});
  many.data = "synth:logistic?rows=300&cols=5&classes=4";
  EXPECT_THAT(std::string(Make(many, L2Space(), kLoss)->Evaluate(At({{"l2", 1.0}})).status().message()),
              HasSubstr("solver dual is for two classes, and there are more"));
  many.options = {{"penalize_intercept", true}};
  EXPECT_THAT(std::string(CreateObjective(many, L2Space(), kLoss, nullptr).status().message()),
              HasSubstr("penalize_intercept is for two classes"));
  many.options = {{"threads", 2.0}};
  EXPECT_THAT(std::string(CreateObjective(many, L2Space(), kLoss, nullptr).status().message()),
              HasSubstr("threads above 1 is for two classes"));
}

TEST(LogisticObjectiveTest, ThreadsChangeNoBit) {
  std::vector<Measurement> ends;
  for (const double threads : {1.0, 3.0}) {
    BuiltinObjective large = Logistic({{"threads", threads}, {"tolerance", 1e-4}});
    large.data = "synth:logistic?rows=12000&cols=60&seed=2";
    const EvaluationResult r = Make(large, L2Space(), kLoss)->Evaluate(At({{"l2", 1.0}})).value();
    ASSERT_EQ(r.outcome, EvaluationOutcome::kComplete);
    ends.push_back(*r.measurement);
  }
  EXPECT_EQ(ends[0].metrics, ends[1].metrics);
  ASSERT_TRUE(ends[0].gradient && ends[1].gradient);
  EXPECT_EQ(ends[0].gradient->values, ends[1].gradient->values);
}

TEST(LogisticObjectiveTest, TheTargetsPointIsReportedWhateverTheOthers) {
  const auto made = Make(Logistic({{"solver", std::string("lbfgs")}, {"report_every", 4.0}}), L2Space(), kLoss);
  std::vector<Measurement> curve;
  RunPaused(*made, {{"l2", 0.05}}, {3}, &curve);
  ASSERT_GE(curve.size(), 3u);
  EXPECT_EQ(curve[0].step, 0);
  EXPECT_EQ(curve[1].step, 3);
  EXPECT_EQ(curve[2].step, 4);
}

TEST(LogisticObjectiveTest, TrainingThatEndsBeforeItsTargetIsComplete) {
  const auto made = Make(Logistic(), L2Space(), kLoss);
  EvaluationContext context = At({{"l2", 0.05}});
  const EvaluationResult straight = made->Evaluate(context).value();
  context.target = straight.measurement->step + 1;
  const EvaluationResult again = made->Evaluate(context).value();
  EXPECT_EQ(again.outcome, EvaluationOutcome::kComplete);
  EXPECT_EQ(again.measurement, straight.measurement);
}

TEST(LogisticObjectiveTest, FilesAreReadBelowTheRoot) {
  testing::TemporaryDirectory dir;
  std::string text = "x;kind\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i % 7) + (i % 3 == 0 ? ";yes\n" : ";no\n");
  dir.Write("a.csv", text);
  dir.Write("one.csv", "x,kind\n1,a\n2,a\n");
  const data::DataRoot root = data::DataRoot::Open(dir.path()).value();
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
  const data::DataRoot root = data::DataRoot::Open(dir.path()).value();
  BuiltinObjective objective = Logistic({{"standardize", false}});
  objective.data = "huge.csv";
  const auto made = CreateObjective(objective, L2Space(), kLoss, &root);
  ASSERT_TRUE(made.ok()) << made.status();
  const EvaluationResult r = (*made)->Evaluate(At({{"l2", 1.0}})).value();
  ASSERT_EQ(r.outcome, EvaluationOutcome::kFailed);
  EXPECT_EQ(r.failure->kind, study::FailureKind::kConfig);
  EXPECT_EQ(r.failure->reason, study::failure::kDiverged);
}

absl::StatusOr<std::unique_ptr<Objective>> MakeHsvm(study::Parameters options, int folds = 0, int classes = 2) {
  study::BuiltinObjective objective;
  objective.model = "hsvm";
  objective.data = "synth:logistic?rows=200&cols=6&seed=3&noise=0.2&classes=" + std::to_string(classes);
  objective.split.folds = folds;
  objective.split.seed = 4;
  objective.options = std::move(options);
  return CreateObjective(objective, L2Space(), kLoss, nullptr);
}

EvaluationResult EvaluateAt(const Objective& objective, double l2) {
  absl::StatusOr<EvaluationResult> result = objective.Evaluate(At({{"l2", l2}}));
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

TEST(HsvmObjectiveTest, AllSolversGiveTheSameMeasurement) {
  for (const int folds : {0, 3}) {
    const auto reference = MakeHsvm({{"solver", std::string("lbfgs")}, {"tolerance", 1e-10}}, folds);
    ASSERT_TRUE(reference.ok());
    const EvaluationResult expected = EvaluateAt(**reference, 2.0);
    for (const char* solver : {"auto", "dual", "svrg", "newton_cg", "newton_cholesky"}) {
      const auto objective =
          MakeHsvm({{"solver", std::string(solver)}, {"tolerance", 1e-9}, {"max_iterations", 20000.0}}, folds);
      ASSERT_TRUE(objective.ok()) << objective.status();
      const EvaluationResult result = EvaluateAt(**objective, 2.0);
      ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
      for (const auto& [name, value] : expected.measurement->metrics) {
        EXPECT_NEAR(result.measurement->metrics.at(name), value, 1e-6) << solver << " " << name;
      }
      ASSERT_TRUE(result.measurement->gradient.has_value()) << solver;
      EXPECT_NEAR(result.measurement->gradient->values[0], expected.measurement->gradient->values[0], 1e-7) << solver;
    }
  }
}

TEST(HsvmObjectiveTest, TheGradientAgreesWithDifferences) {
  for (const bool intercept : {false, true}) {
    for (const int folds : {0, 3}) {
      const auto objective =
          MakeHsvm({{"tolerance", 1e-11}, {"solver", std::string("newton_cholesky")}, {"intercept", intercept}}, folds);
      ASSERT_TRUE(objective.ok());
      for (const double l2 : {0.5, 20.0}) {
        const double h = 1e-5 * l2;  // No margin crosses a corner within this step at these seeds.
        const auto loss = [&](double at) {
          return EvaluateAt(**objective, at).measurement->metrics.at("validation_loss");
        };
        const double expected = (loss(l2 + h) - loss(l2 - h)) / (2 * h);
        EXPECT_NEAR(EvaluateAt(**objective, l2).measurement->gradient->values[0], expected,
                    1e-5 * std::abs(expected) + 1e-10);
      }
    }
  }
}

TEST(HsvmObjectiveTest, RefusesMoreThanTwoClasses) {
  const auto objective = MakeHsvm({}, 0, 3);
  EXPECT_FALSE(objective.ok());
  EXPECT_THAT(std::string(objective.status().message()), HasSubstr("two classes, not 3; use logistic"));
}

}  // namespace
}  // namespace luthier::objectives
