#include "lib/objectives/vf_idca_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/model/model.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

BuiltinObjective VfIdcaSpec(const std::string& model, study::Parameters options = {}) {
  BuiltinObjective spec;
  spec.model = model;
  spec.data = "synth:regression?rows=150&cols=40&seed=3&noise=1&informative=5";
  spec.split = {.validation = 0.3, .folds = 0, .seed = 2, .third = 0.2};
  spec.options = std::move(options);
  return spec;
}

SearchSpace Start() {
  return Space({Float("start", 1e-3, 1.0, study::Scale::kLog)});
}

absl::StatusOr<std::unique_ptr<VfIdcaObjective>> Create(const BuiltinObjective& spec,
                                                        const data::DataRoot* root = nullptr) {
  return CreateVfIdcaObjective({**catalogue::FindObjective(spec.model), spec, {}, {}, root}, {});
}

// The refit is the elastic net with the strengths found, on the same split.
TEST(VfIdcaObjectiveTest, StrengthsAreThoseOfElasticNet) {
  for (const bool standardize : {true, false}) {
    const BuiltinObjective spec = VfIdcaSpec("vf_elastic_net", {{"standardize", standardize}});
    const auto found = Create(spec);
    ASSERT_TRUE(found.ok()) << found.status();
    std::vector<Strength> strengths;
    const Measurement m = *(*found)->Run(At({}), &strengths)->measurement;
    EXPECT_EQ(m.training->outcome, study::TrainingOutcome::kConverged);
    EXPECT_LT(*m.training->duality_gap, 1e-6);
    ASSERT_EQ(strengths.size(), 2u);
    EXPECT_GT(strengths[0].value, 0.0);
    BuiltinObjective net = VfIdcaSpec("elastic_net", {{"standardize", standardize}, {"l2", strengths[1].value}});
    const auto objective = Make(net, Space({Float("l1", 1e-6, 1e6, study::Scale::kLog)}), kLoss);
    const Measurement refit = *objective->Evaluate(At({{"l1", strengths[0].value}}))->measurement;
    for (const char* metric : {"validation_loss", "validation_r2", "train_loss", "third_loss", "third_r2"}) {
      EXPECT_NEAR(m.metrics.at(metric), refit.metrics.at(metric), 2e-3 * std::abs(refit.metrics.at(metric))) << metric;
    }
    EXPECT_LT(m.metrics.at("iterate_loss"), m.metrics.at("validation_loss")) << "it has seen these rows";
  }
}

TEST(VfIdcaObjectiveTest, StrengthsAreNoWorseThanThoseOfAGrid) {
  const Measurement m = *(*Create(VfIdcaSpec("vf_elastic_net")))->Evaluate(At({}))->measurement;
  const SearchSpace space = Space({Float("l1", 1e-6, 1e6, study::Scale::kLog), Float("l2", 0.0, 1e6)});
  const auto grid = Make(VfIdcaSpec("elastic_net"), space, kLoss);
  double best = INFINITY;
  for (double l1 = 0.1; l1 < 300.0; l1 *= 1.6) {
    for (double l2 = 0.1; l2 < 300.0; l2 *= 4.0) {
      best = std::min(best, grid->Evaluate(At({{"l1", l1}, {"l2", l2}}))->measurement->metrics.at("validation_loss"));
    }
  }
  EXPECT_LE(m.metrics.at("validation_loss"), 1.1 * best);
}

// Targets in other units give the same model, whose strengths follow the units.
TEST(VfIdcaObjectiveTest, UnitsOfTheTargetsDoNotMatter) {
  const testing::TemporaryDirectory directory;
  std::ofstream one(directory.path() + "/one.csv"), thousand(directory.path() + "/thousand.csv");
  for (int i = 0; i < 60; ++i) {
    const double a = std::sin(i * 1.3), b = std::cos(i * 2.1), c = std::sin(i * 0.7 + 1.0);
    const double y = 2.0 * a - b + 0.3 * std::sin(i * 17.0);
    one << a << "," << b << "," << c << "," << y << "\n";
    thousand << a << "," << b << "," << c << "," << absl::StrCat(1000.0 * y) << "\n";
  }
  one.close();
  thousand.close();
  const data::DataRoot root = data::DataRoot::Open(directory.path()).value();
  std::vector<Strength> strengths[2];
  Measurement m[2];
  for (const int k : {0, 1}) {
    BuiltinObjective spec = VfIdcaSpec("vf_elastic_net", {{"header", std::string("no")}});
    spec.data = k == 0 ? "one.csv" : "thousand.csv";
    const auto objective = Create(spec, &root);
    ASSERT_TRUE(objective.ok()) << objective.status();
    m[k] = *(*objective)->Run(At({}), &strengths[k])->measurement;
  }
  EXPECT_NEAR(m[1].metrics.at("validation_loss"), 1e6 * m[0].metrics.at("validation_loss"),
              1e-2 * m[1].metrics.at("validation_loss"));
  EXPECT_NEAR(strengths[1][0].value, 1e3 * strengths[0][0].value, 1e-2 * strengths[1][0].value + 1e-9);
  EXPECT_NEAR(strengths[1][1].value, strengths[0][1].value, 1e-2 * strengths[0][1].value + 1e-9);
}

TEST(VfIdcaObjectiveTest, GroupsHaveNamesAndStrengths) {
  std::vector<Strength> strengths;
  const auto named =
      Create(VfIdcaSpec("vf_sparse_group_lasso", {{"groups", std::string("first: 1-5; second: 6-10 12")}}));
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_TRUE((*named)->Run(At({}), &strengths).ok());
  std::vector<std::string> names;
  for (const Strength& s : strengths) names.push_back(s.name);
  EXPECT_THAT(names, ::testing::ElementsAre("l1", "group.first", "group.second", "group.rest"));
  const Measurement many =
      *(*Create(VfIdcaSpec("vf_sparse_group_lasso", {{"group_size", 1.0}})))->Run(At({}), &strengths)->measurement;
  EXPECT_EQ(strengths.size(), 41u);
  EXPECT_LE(many.metrics.size(), 32u) << "a measurement has room for no more";
  for (const char* text : {"a: 99", "a: 1; b: 1", "a: x"}) {
    const absl::Status status = Create(VfIdcaSpec("vf_sparse_group_lasso", {{"groups", std::string(text)}})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("groups: "));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("l2_groups")));
  }
}

// The model of all rows at the strengths found: that of elastic_net.
TEST(VfIdcaObjectiveTest, ModelsAreTrainedOnAllRows) {
  std::vector<Strength> strengths;
  const BuiltinObjective spec = VfIdcaSpec("vf_elastic_net");
  ASSERT_TRUE((*Create(spec))->Run(At({}), &strengths).ok());
  TrainRequest request, net;
  request.objective = spec;
  const auto model = TrainModel(request, nullptr, {});
  ASSERT_TRUE(model.ok()) << model.status();
  net.objective = VfIdcaSpec("elastic_net");
  net.parameters = {{"l1", strengths[0].value}, {"l2", strengths[1].value}};
  const auto expected = TrainModel(net, nullptr, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ((*model)->info().examples, 150);
  EXPECT_NEAR((*model)->info().metrics.at("train_loss"), (*expected)->info().metrics.at("train_loss"), 1e-6);
  EXPECT_TRUE(model::LoadModel((*model)->Save(), "m").ok());
  request.objective.model = "vf_sparse_group_lasso";
  EXPECT_TRUE(TrainModel(request, nullptr, {}).ok());
}

TEST(VfIdcaObjectiveTest, ReportsItsPathAndStops) {
  const auto objective = Create(VfIdcaSpec("vf_elastic_net", {{"tolerance", 1e-4}}));
  std::vector<Measurement> path;
  EvaluationContext context = At({});
  context.report = [&](const Measurement& m) {
    path.push_back(m);
    return path.size() < 3;
  };
  const EvaluationResult result = (*objective)->Evaluate(context).value();
  EXPECT_EQ(result.outcome, EvaluationOutcome::kStopped);
  ASSERT_EQ(path.size(), 3u);
  EXPECT_EQ(path[2].step, 3);
  EXPECT_EQ(result.measurement->step, 3);
  base::StopSource source;
  source.RequestStop();
  context = At({});
  context.stop = source.token();
  EXPECT_EQ((*objective)->Evaluate(context)->outcome, EvaluationOutcome::kCancelled);
}

TEST(VfIdcaObjectiveTest, SaysThatItEndedAtItsLimit) {
  const EvaluationResult limited =
      (*Create(VfIdcaSpec("vf_elastic_net", {{"max_steps", 1.0}, {"tolerance", 1e-6}})))->Evaluate(At({})).value();
  EXPECT_EQ(limited.measurement->training->outcome, study::TrainingOutcome::kLimit);
}

TEST(VfIdcaObjectiveTest, ConstantColumnsAndTargetsAreTaken) {
  const testing::TemporaryDirectory directory;
  std::ofstream file(directory.path() + "/t.csv"), flat(directory.path() + "/flat.csv");
  for (int i = 0; i < 40; ++i) {
    file << "7," << std::sin(i) << "," << std::sin(i) << ",0," << std::sin(i) + 0.1 * std::cos(9.0 * i) << "\n";
    flat << std::sin(i) << ",5\n";
  }
  file.close();
  flat.close();
  const data::DataRoot root = data::DataRoot::Open(directory.path()).value();
  for (const char* model : {"vf_elastic_net", "vf_sparse_group_lasso"}) {
    for (const char* data : {"t.csv", "flat.csv"}) {
      BuiltinObjective spec = VfIdcaSpec(model, {{"header", std::string("no")}});
      spec.data = data;
      const auto objective = Create(spec, &root);
      ASSERT_TRUE(objective.ok()) << objective.status();
      const EvaluationResult result = (*objective)->Evaluate(At({})).value();
      EXPECT_EQ(result.outcome, EvaluationOutcome::kComplete) << model << " " << data;
      EXPECT_LT(result.measurement->metrics.at("validation_loss"), 0.5);
      if (std::string(data) == "flat.csv") {
        EXPECT_EQ(result.measurement->metrics.at("l1"), 0.0);
        EXPECT_THAT(result.note, HasSubstr("all strengths are 0"));
      }
    }
  }
}

TEST(VfIdcaObjectiveTest, RefusesWhatItCannotDo) {
  BuiltinObjective spec = VfIdcaSpec("vf_elastic_net");
  spec.split.folds = 3;
  EXPECT_THAT(std::string(catalogue::Validate(spec, Start(), kLoss).message()), HasSubstr("holds out rows once"));
  spec = VfIdcaSpec("vf_elastic_net", {{"max_memory_mib", 1.0}});
  spec.data = "synth:regression?rows=20&cols=400";
  const absl::Status status = Create(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace luthier::objectives
