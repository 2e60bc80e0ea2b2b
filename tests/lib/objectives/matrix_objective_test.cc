#include "lib/objectives/matrix_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "lib/catalogue/registry.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

BuiltinObjective MatrixSpec(const std::string& model, study::Parameters options = {}) {
  BuiltinObjective spec;
  spec.model = model;
  spec.data = "synth:matrix?rows=25&cols=20&known=260&rank=1&features=4&noise=0.2&seed=3";
  spec.split = {.validation = 0.25, .folds = 0, .seed = 2, .third = 0.2};
  spec.options = std::move(options);
  return spec;
}

SearchSpace Nuclear() {
  return Space({Float("nuclear", 1e-6, 1e6, study::Scale::kLog)});
}

absl::StatusOr<std::unique_ptr<VfIdcaObjective>> MatrixObjective(const BuiltinObjective& spec,
                                                                 const data::DataRoot* root = nullptr) {
  return CreateVfIdcaObjective({**catalogue::FindObjective(spec.model), spec, {}, {}, root}, {});
}

// The refit of VF-iDCA is the penalised model at one strength for all groups where the data have one group.
TEST(MatrixObjectiveTest, StrengthsFoundAreThoseOfThePenalisedModel) {
  for (const bool standardize : {true, false}) {
    const study::Parameters options = {{"group_size", 4.0}, {"standardize", standardize}};
    const auto found = MatrixObjective(MatrixSpec("vf_matrix_completion", options));
    ASSERT_TRUE(found.ok()) << found.status();
    std::vector<Strength> strengths;
    const Measurement m = *(*found)->Run(At({}), &strengths)->measurement;
    EXPECT_EQ(m.training->outcome, study::TrainingOutcome::kConverged);
    ASSERT_EQ(strengths.size(), 2u);
    EXPECT_EQ(strengths[0].name, "nuclear");
    EXPECT_EQ(strengths[1].name, "group.1-4");
    EXPECT_GT(strengths[0].value, 0.0);
    BuiltinObjective spec = MatrixSpec("matrix_completion", options);
    spec.options["group"] = std::max(1e-8, strengths[1].value);
    spec.options["tolerance"] = 1e-9;
    const auto objective = Make(spec, Nuclear(), kLoss);
    const Measurement refit = *objective->Evaluate(At({{"nuclear", strengths[0].value}}))->measurement;
    for (const char* metric : {"validation_loss", "train_loss", "third_loss", "third_r2"}) {
      EXPECT_NEAR(m.metrics.at(metric), refit.metrics.at(metric), 1e-2 * std::abs(refit.metrics.at(metric))) << metric;
    }
    EXPECT_GT(m.metrics.at("validation_r2"), 0.5);
    EXPECT_LT(m.metrics.at("iterate_loss"), m.metrics.at("validation_loss")) << "it has seen these entries";
  }
}

TEST(MatrixObjectiveTest, StrengthsAreNoWorseThanThoseOfAGrid) {
  const Measurement m = *(*MatrixObjective(MatrixSpec("vf_matrix_completion")))->Evaluate(At({}))->measurement;
  const auto grid = Make(
      MatrixSpec("matrix_completion"),
      Space({Float("nuclear", 1e-6, 1e6, study::Scale::kLog), Float("group", 1e-6, 1e6, study::Scale::kLog)}), kLoss);
  double best = INFINITY;
  for (double nuclear = 0.3; nuclear < 30.0; nuclear *= 2.0) {
    for (const double group : {0.01, 0.3, 3.0}) {
      best = std::min(
          best,
          grid->Evaluate(At({{"nuclear", nuclear}, {"group", group}}))->measurement->metrics.at("validation_loss"));
    }
  }
  EXPECT_LE(m.metrics.at("validation_loss"), 1.1 * best);
}

// Columns by name and by number, in any order, with any numbers for rows and columns.
TEST(MatrixObjectiveTest, ColumnsAreNamed) {
  const testing::TemporaryDirectory directory;
  std::ofstream file(directory.path() + "/r.csv");
  file << "age,item,user,rating\n";
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 9; ++j) {
      if ((i * 7 + j * 5) % 3 == 0) continue;
      file << 20 + i << "," << 1000.5 - j << "," << -i << "," << (i + 1) * (j - 4) << "\n";
    }
  }
  file.close();
  const data::DataRoot root = data::DataRoot::Open(directory.path()).value();
  std::vector<double> losses;
  for (const auto& [row, column] :
       {std::pair<std::string, std::string>{"user", "item"}, {"3", "2"}, {"item", "user"}}) {
    BuiltinObjective spec = MatrixSpec("vf_matrix_completion", {{"row", row}, {"column", column}});
    spec.data = "r.csv";
    const auto objective = MatrixObjective(spec, &root);
    ASSERT_TRUE(objective.ok()) << objective.status();
    losses.push_back((*objective)->Evaluate(At({}))->measurement->metrics.at("validation_loss"));
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NEAR(losses[0], losses[2], 1e-2 * losses[0]) << "the transposed matrix";
  for (const auto& [row, message] : {std::pair<std::string, std::string>{"usr", "has no column \"usr\""},
                                     {"9", "give a name or a number from 1 to 3"},
                                     {"item", "the same column"}}) {
    BuiltinObjective spec = MatrixSpec("vf_matrix_completion", {{"row", row}, {"column", std::string("item")}});
    spec.data = "r.csv";
    EXPECT_THAT(std::string(MatrixObjective(spec, &root).status().message()), HasSubstr(message));
  }
}

TEST(MatrixObjectiveTest, RefusesWhatIsTooLarge) {
  BuiltinObjective spec = MatrixSpec("vf_matrix_completion");
  spec.data = "synth:matrix?rows=400&cols=100&known=3000";
  EXPECT_THAT(std::string(MatrixObjective(spec).status().message()), HasSubstr("tune matrix_completion instead"));
  spec = MatrixSpec("vf_matrix_completion");
  spec.split.folds = 3;
  EXPECT_THAT(
      std::string(catalogue::Validate(spec, Space({Float("start", 1e-3, 1.0, study::Scale::kLog)}), kLoss).message()),
      HasSubstr("holds out rows once"));
}

TEST(MatrixObjectiveTest, ConstantValuesAreTaken) {
  const testing::TemporaryDirectory directory;
  std::ofstream file(directory.path() + "/flat.csv");
  for (int i = 0; i < 40; ++i) file << i % 5 << "," << i % 7 << ",3\n";
  file.close();
  const data::DataRoot root = data::DataRoot::Open(directory.path()).value();
  BuiltinObjective spec = MatrixSpec("vf_matrix_completion", {{"header", std::string("no")}});
  spec.data = "flat.csv";
  const EvaluationResult result = (*MatrixObjective(spec, &root))->Evaluate(At({})).value();
  EXPECT_EQ(result.outcome, EvaluationOutcome::kComplete);
  EXPECT_EQ(result.measurement->metrics.at("validation_loss"), 0.0);
  EXPECT_THAT(result.note, HasSubstr("all strengths are 0"));
}

}  // namespace
}  // namespace luthier::objectives
