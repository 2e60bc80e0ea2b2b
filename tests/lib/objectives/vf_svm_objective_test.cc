#include "lib/objectives/vf_svm_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/catalogue/registry.h"
#include "lib/model/model.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

BuiltinObjective SvmSpec(int folds) {
  BuiltinObjective spec;
  spec.model = "vf_svm";
  spec.data = "synth:logistic?rows=240&cols=12&informative=3&seed=2";
  spec.split = {.validation = 0.3, .folds = folds, .seed = 2, .third = folds > 0 ? 0.0 : 0.2};
  return spec;
}

absl::StatusOr<std::unique_ptr<VfIdcaObjective>> SvmObjective(const BuiltinObjective& spec) {
  return CreateVfIdcaObjective({**catalogue::FindObjective(spec.model), spec, {}, {}, nullptr}, {});
}

TEST(VfSvmObjectiveTest, BoundsSuppressUninformativeColumns) {
  for (const int folds : {0, 3}) {
    const auto objective = SvmObjective(SvmSpec(folds));
    ASSERT_TRUE(objective.ok()) << objective.status();
    std::vector<Strength> strengths;
    const EvaluationResult result = (*objective)->Run(At({}), &strengths).value();
    const Measurement& m = *result.measurement;
    EXPECT_EQ(m.training->outcome, study::TrainingOutcome::kConverged);
    EXPECT_LE(*m.training->duality_gap, 1e-6);
    EXPECT_LT(m.metrics.at("validation_loss"), 0.6);
    EXPECT_GT(m.metrics.at("validation_accuracy"), 0.75);
    EXPECT_EQ(m.metrics.contains("third_accuracy"), folds == 0);
    ASSERT_EQ(strengths.size(), 14u);
    EXPECT_EQ(strengths[1].name, "norm");
    EXPECT_EQ(strengths[2].name, "bound.1");
    double informative = 0.0, others = 0.0;
    for (size_t j = 0; j < 12; ++j) (j < 3 ? informative : others) += strengths[j + 2].value / (j < 3 ? 3.0 : 9.0);
    EXPECT_GT(informative, 2.0 * others);
    EXPECT_THAT(result.note, HasSubstr("bounds: 1 "));
  }
}

TEST(VfSvmObjectiveTest, ModelsPredict) {
  TrainRequest request;
  request.objective = SvmSpec(3);
  const auto model = TrainModel(request, nullptr, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->info().examples, 240);
  const auto read = model::LoadModel((*model)->Save(), "m");
  ASSERT_TRUE(read.ok()) << read.status();
}

TEST(VfSvmObjectiveTest, RefusesOtherThanTwoClasses) {
  BuiltinObjective spec = SvmSpec(0);
  spec.data = "synth:logistic?rows=240&cols=12&classes=3";
  EXPECT_THAT(std::string(SvmObjective(spec).status().message()), HasSubstr("there are 3; use hsvm"));
}

TEST(VfSvmObjectiveTest, RefusesWhatWouldTakeTooLong) {
  BuiltinObjective spec = SvmSpec(3);
  spec.data = "synth:logistic?rows=240&cols=401";
  EXPECT_THAT(std::string(SvmObjective(spec).status().message()), HasSubstr("at most 400 columns with 3 folds"));
  spec.data = "synth:logistic?rows=240&cols=400";
  EXPECT_TRUE(SvmObjective(spec).ok());
}

}  // namespace
}  // namespace luthier::objectives
