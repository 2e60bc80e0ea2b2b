#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/objectives/objective.h"
#include "lib/objectives/registry.h"

namespace luthier::objectives {
namespace {

const study::MetricSpec kLoss = {"validation_loss", study::Goal::kMinimize};

study::SearchSpace L2Space() {
  study::ParameterSpec p;
  p.name = "l2";
  study::FloatRange range;
  range.min = 1e-4;
  range.max = 1e4;
  range.scale = study::Scale::kLog;
  p.domain = range;
  return study::SearchSpace::Create({p}).value();
}

absl::StatusOr<std::unique_ptr<Objective>> Make(study::Parameters options, int folds = 0, int classes = 2) {
  study::BuiltinObjective objective;
  objective.model = "hsvm";
  objective.data = "synth:logistic?rows=200&cols=6&seed=3&noise=0.2&classes=" + std::to_string(classes);
  objective.split.folds = folds;
  objective.split.seed = 4;
  objective.options = std::move(options);
  return CreateObjective(objective, L2Space(), kLoss, nullptr);
}

EvaluationResult EvaluateAt(const Objective& objective, double l2, const std::string& checkpoint = "",
                            std::vector<std::string>* saved = nullptr, std::vector<int64_t>* steps = nullptr) {
  EvaluationContext context;
  context.parameters = {{"l2", l2}};
  context.checkpoint = checkpoint;
  if (saved != nullptr) context.save_checkpoint = [saved](std::string bytes) { saved->push_back(std::move(bytes)); };
  if (steps != nullptr) {
    context.report = [steps](const study::Measurement& m) {
      steps->push_back(m.step);
      return true;
    };
  }
  absl::StatusOr<EvaluationResult> result = objective.Evaluate(context);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

TEST(HsvmObjectiveTest, AllSolversGiveTheSameMeasurement) {
  for (const int folds : {0, 3}) {
    const auto reference = Make({{"solver", std::string("lbfgs")}, {"tolerance", 1e-10}}, folds);
    ASSERT_TRUE(reference.ok());
    const EvaluationResult expected = EvaluateAt(**reference, 2.0);
    for (const char* solver : {"auto", "dual", "svrg", "newton_cg", "newton_cholesky"}) {
      const auto objective =
          Make({{"solver", std::string(solver)}, {"tolerance", 1e-9}, {"max_iterations", 20000.0}}, folds);
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
          Make({{"tolerance", 1e-11}, {"solver", std::string("newton_cholesky")}, {"intercept", intercept}}, folds);
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

TEST(HsvmObjectiveTest, ReportsAndResumingChangeNothing) {
  for (const char* solver : {"dual", "svrg", "lbfgs"}) {
    const auto objective = Make({{"solver", std::string(solver)}, {"checkpoint_every", 3.0}, {"report_every", 2.0}}, 2);
    ASSERT_TRUE(objective.ok());
    const EvaluationResult straight = EvaluateAt(**objective, 1.0);
    std::vector<std::string> saved;
    std::vector<int64_t> steps;
    const EvaluationResult reported = EvaluateAt(**objective, 1.0, "", &saved, &steps);
    EXPECT_EQ(reported.measurement, straight.measurement);
    ASSERT_GE(saved.size(), 2u);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    for (const size_t k : {size_t{0}, saved.size() - 1}) {
      const EvaluationResult resumed = EvaluateAt(**objective, 1.0, saved[k]);
      EXPECT_TRUE(resumed.resumed);
      EXPECT_EQ(resumed.measurement, straight.measurement) << solver;
      EXPECT_FALSE(EvaluateAt(**objective, 2.0, saved[k]).resumed);
    }
    EXPECT_EQ(EvaluateAt(**objective, 1.0, "not a checkpoint").measurement, straight.measurement);
  }
}

TEST(HsvmObjectiveTest, RefusesMoreThanTwoClasses) {
  const auto objective = Make({}, 0, 3);
  EXPECT_FALSE(objective.ok());
  EXPECT_THAT(std::string(objective.status().message()), testing::HasSubstr("two classes, not 3; use logistic"));
}

}  // namespace
}  // namespace luthier::objectives
