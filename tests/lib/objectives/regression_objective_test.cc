// ridge and kernel_ridge as objectives: gradients by the parameters themselves, splits, models, errors.

#include "lib/objectives/regression_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;
using Vec = std::vector<double>;

BuiltinObjective Spec(const std::string& model, study::Parameters options = {}) {
  BuiltinObjective spec;
  spec.model = model;
  spec.data = "synth:regression?rows=120&cols=4&seed=3&noise=0.3&waves=0.3";
  spec.split = {.validation = 0.3, .folds = 0, .seed = 2, .third = 0.2};
  spec.options = std::move(options);
  return spec;
}

ParameterSpec List(const std::string& name, int count) {
  ParameterSpec p = Float(name, 1e-4, 1e4, study::Scale::kLog);
  p.count = count;
  return p;
}
ParameterSpec One(const std::string& name) {
  return Float(name, 1e-4, 1e4, study::Scale::kLog);
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// The entry of `values` behind the first number of a list, or the number itself.
study::Parameters Moved(study::Parameters at, const std::string& name, int element, double factor) {
  study::ParameterValue& value = at[name];
  if (auto* list = std::get_if<Vec>(&value)) {
    (*list)[static_cast<size_t>(element)] *= factor;
  } else {
    value = std::get<double>(value) * factor;
  }
  return at;
}

TEST(RegressionObjectiveTest, GradientsMatchDifferences) {
  struct Case {
    const char* model;
    std::vector<ParameterSpec> space;
    study::Parameters at, options;
    int folds;
  };
  const std::string groups = "a: 1 2";
  const std::vector<Case> cases = {
      {"ridge", {One("l2")}, {{"l2", 3.0}}, {}, 0},
      {"ridge", {One("l2")}, {{"l2", 0.3}}, {{"intercept", false}, {"standardize", false}}, 3},
      {"ridge", {One("l2"), One("l2.a")}, {{"l2", 3.0}, {"l2.a", 0.1}}, {{"l2_groups", groups}}, 0},
      {"ridge", {List("l2", 4)}, {{"l2", Vec{0.1, 1, 10, 100}}}, {{"standardize", false}}, 4},
      {"kernel_ridge", {One("gamma"), One("l2")}, {{"gamma", 0.2}, {"l2", 0.05}}, {}, 0},
      {"kernel_ridge", {One("l2"), List("gamma", 4)}, {{"gamma", Vec{0.1, 0.5, 0.05, 0.2}}, {"l2", 0.5}}, {}, 3},
      {"kernel_ridge", {One("gamma")}, {{"gamma", 0.4}}, {{"l2", 0.1}, {"standardize", false}}, 0},
      {"ridge", {List("l2", 4)}, {{"l2", Vec{0.1, 1, 10, 100}}}, {{"criterion", std::string("leave_one_out")}}, 0},
      {"ridge",
       {One("l2"), One("l2.a")},
       {{"l2", 3.0}, {"l2.a", 0.1}},
       {{"l2_groups", groups}, {"criterion", std::string("gcv")}, {"intercept", false}},
       0},
      {"elastic_net", {One("l1"), One("l2")}, {{"l1", 2.0}, {"l2", 3.0}}, {}, 3},
      {"elastic_net", {One("l1")}, {{"l1", 0.3}}, {{"standardize", false}}, 0},
      {"mlp", {One("l2")}, {{"l2", 1.0}}, {{"units", 3.0}, {"l2_out", 0.5}, {"tolerance", 1e-11}}, 0},
      {"mlp",
       {List("l2", 4)},
       {{"l2", Vec{0.5, 1, 3, 10}}},
       {{"units", 2.0}, {"l2_out", 0.5}, {"tolerance", 1e-11}},
       2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.model, " ", study::FormatParameters(c.at), " ", c.folds, " folds"));
    BuiltinObjective spec = Spec(c.model, c.options);
    spec.split.folds = c.folds;
    const SearchSpace space = Space(c.space);
    const auto made = CreateObjective(spec, space, kLoss, nullptr);
    ASSERT_TRUE(made.ok()) << made.status();
    const Measurement m = *(*made)->Evaluate(At(c.at))->measurement;
    for (const char* name : {"validation_r2", "train_loss", "third_loss", "third_r2"}) {
      EXPECT_TRUE(m.metrics.contains(name)) << name;
    }
    ASSERT_TRUE(m.gradient);
    ASSERT_TRUE(m.gradient->solve);
    const bool proven = (c.model[0] == 'r' || c.model[0] == 'k') && !c.options.contains("criterion");
    EXPECT_EQ(m.gradient->solve->certified, proven);
    const std::vector<study::Scalar>& scalars = space.differentiable();
    ASSERT_EQ(m.gradient->values.size(), scalars.size());
    for (size_t k = 0; k < scalars.size(); ++k) {
      const std::string& name = c.space[static_cast<size_t>(scalars[k].parameter)].name;
      const auto loss = [&](double factor) {
        return (*made)
            ->Evaluate(At(Moved(c.at, name, scalars[k].element, factor)))
            ->measurement->metrics.at("validation_loss");
      };
      const study::ParameterValue& value = c.at.at(name);
      const auto* list = std::get_if<Vec>(&value);
      const double x = list ? (*list)[static_cast<size_t>(scalars[k].element)] : std::get<double>(value);
      const double numeric = (loss(1.0 + 1e-5) - loss(1.0 - 1e-5)) / (2e-5 * x);
      EXPECT_NEAR(m.gradient->values[k], numeric, 1e-5 * std::abs(numeric) + 1e-8 / x) << name << " " << k;
      if (!proven) continue;
      EXPECT_LE(std::abs(m.gradient->values[k] - numeric), *m.gradient->error_bound + 1e-4 * std::abs(numeric) + 1e-7);
    }
  }
}

TEST(RegressionObjectiveTest, AParameterWithoutADerivativeLeavesNoGradient) {
  const auto made = CreateObjective(Spec("mlp", {{"units", 3.0}}), Space({One("l2"), One("l2_out")}), kLoss, nullptr);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE((*made)->Evaluate(At({{"l2", 1.0}, {"l2_out", 0.5}}))->measurement->gradient);
}

TEST(RegressionObjectiveTest, LeaveOneOutIsAsManyFoldsAsRows) {
  BuiltinObjective spec = Spec("ridge", {{"standardize", false}});
  spec.data = "synth:regression?rows=20&cols=3&seed=4";
  spec.split = {.validation = 0.25, .folds = 20, .seed = 1};
  const Measurement folds = *Make(spec, Space({One("l2")}), kLoss)->Evaluate(At({{"l2", 0.7}}))->measurement;
  spec.split.folds = 0;
  spec.options["criterion"] = std::string("leave_one_out");
  const Measurement m = *Make(spec, Space({One("l2")}), kLoss)->Evaluate(At({{"l2", 0.7}}))->measurement;
  for (const char* metric : {"validation_loss", "validation_r2"}) {
    EXPECT_NEAR(m.metrics.at(metric), folds.metrics.at(metric), 1e-9) << metric;
  }
}

TEST(RegressionObjectiveTest, RecentRowsWeighMoreWhereAskedFor) {
  const testing::TemporaryDirectory dir;
  {
    std::ofstream file(dir.path() + "/series.csv");
    file << "day,a,b,y\n";
    for (int t = 0; t < 120; ++t) {
      const double a = std::sin(1.3 * t), b = std::cos(2.9 * t), drift = t / 120.0;
      file << t << "," << a << "," << b << "," << drift * a + (1.0 - drift) * b + 0.1 * std::sin(77.0 * t) << "\n";
    }
  }
  const data::DataRoot root = data::DataRoot::Open(dir.path()).value();
  BuiltinObjective spec;
  spec.model = "ridge";
  spec.data = "series.csv";
  spec.split.time_column = "day";
  spec.split.folds = 3;
  const SearchSpace space =
      Space({One("l2"), Float("recency", 0.1, 100.0, study::Scale::kLog), Float("recency_center", 0.0, 0.95)});
  const auto made = CreateObjective(spec, space, kLoss, &root);
  ASSERT_TRUE(made.ok()) << made.status();
  const study::Parameters at = {{"l2", 0.5}, {"recency", 8.0}, {"recency_center", 0.6}};
  const Measurement m = *(*made)->Evaluate(At(at))->measurement;
  const auto loss = [&](const study::Parameters& there) {
    return (*made)->Evaluate(At(there))->measurement->metrics.at("validation_loss");
  };
  ASSERT_TRUE(m.gradient);
  const char* names[] = {"l2", "recency", "recency_center"};
  for (size_t k = 0; k < 3; ++k) {
    study::Parameters up = at, down = at;
    const double h = 1e-5;
    up[names[k]] = std::get<double>(at.at(names[k])) + h;
    down[names[k]] = std::get<double>(at.at(names[k])) - h;
    EXPECT_NEAR(m.gradient->values[k], (loss(up) - loss(down)) / (2 * h), 1e-7) << names[k];
  }
  EXPECT_LT(m.metrics.at("validation_loss"), 0.8 * loss({{"l2", 0.5}, {"recency", 1e-1}, {"recency_center", 0.0}}));
  // The center may be 0.
  EXPECT_TRUE((*made)->Evaluate(At({{"l2", 0.5}, {"recency", 8.0}, {"recency_center", 0.0}}))->measurement->gradient);
  TrainRequest request;
  request.objective = spec;
  request.parameters = at;
  const auto model = TrainModel(request, &root, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto evaluation = (*model)->Evaluate({dir.path() + "/series.csv", {}}).value();
  EXPECT_NEAR(evaluation.metrics.at("loss"), (*model)->info().metrics.at("train_loss"), 1e-9);
  spec.split.time_column.clear();
  EXPECT_THAT(MessageOf(catalogue::Validate(spec, space, kLoss)), HasSubstr("time_column"));
  const SearchSpace lone = Space({One("l2"), Float("recency_center", 0.0, 0.95)});
  EXPECT_THAT(MessageOf(catalogue::Validate(spec, lone, kLoss)), HasSubstr("recency alone"));
}

TEST(RegressionObjectiveTest, CriteriaOfTrainingRowsHoldOutNone) {
  BuiltinObjective spec = Spec("ridge", {{"criterion", std::string("gcv")}, {"unroll", std::string("lbfgs")}});
  spec.split.folds = 3;
  const std::string message = MessageOf(catalogue::Validate(spec, Space({One("l2")}), kLoss));
  EXPECT_THAT(message, HasSubstr("split.folds"));
  EXPECT_THAT(message, HasSubstr("options.unroll"));
}

TEST(RegressionObjectiveTest, UnrolledTrainingReportsItsOwnGradient) {
  for (const char* model : {"ridge", "kernel_ridge"}) {
    for (const char* method : {"gradient_descent", "heavy_ball", "lbfgs"}) {
      SCOPED_TRACE(absl::StrCat(model, " ", method));
      const BuiltinObjective spec =
          Spec(model, {{"unroll", std::string(method)}, {"unroll_steps", 5.0}, {"gradient", true}});
      study::Parameters at = {{"l2", 2.0}};
      std::vector<ParameterSpec> space = {One("l2")};
      if (std::string(model) == "kernel_ridge") {
        space.push_back(One("gamma"));
        at["gamma"] = 0.2;
      }
      const auto made = CreateObjective(spec, Space(space), kLoss, nullptr).value();
      const Measurement m = *made->Evaluate(At(at))->measurement;
      ASSERT_TRUE(m.gradient);
      EXPECT_EQ(m.training->outcome, study::TrainingOutcome::kTarget);
      EXPECT_FALSE(m.gradient->solve->certified);
      EXPECT_FALSE(m.gradient->error_bound);
    }
  }
}

TEST(RegressionObjectiveTest, ConjugateGradientsAgreeWithTheFactor) {
  // Below what its matrices need, ridge is solved by products alone.
  const auto loss_of = [](double mebibytes) {
    BuiltinObjective spec = Spec("ridge", {{"max_memory_mib", mebibytes}});
    spec.data = "synth:regression?rows=900&cols=300&seed=3";
    return *CreateObjective(spec, Space({One("l2")}), kLoss, nullptr).value()->Evaluate(At({{"l2", 3.0}}))->measurement;
  };
  const Measurement factor = loss_of(4096.0), products = loss_of(1.0);
  EXPECT_LT(factor.step, products.step);
  EXPECT_NEAR(factor.metrics.at("validation_loss"), products.metrics.at("validation_loss"), 1e-9);
  EXPECT_NEAR(factor.gradient->values[0], products.gradient->values[0], 1e-7 * std::abs(factor.gradient->values[0]));
}

TEST(RegressionObjectiveTest, ManyColumnsAreSolvedByProductsToATolerance) {
  BuiltinObjective spec = Spec("ridge");
  spec.data = "synth:regression?rows=120&cols=600&seed=3&density=0.2";
  spec.split = {.validation = 0.5, .folds = 0, .seed = 2};
  const auto made = CreateObjective(spec, Space({One("l2")}), kLoss, nullptr).value();
  const Measurement m = *made->Evaluate(At({{"l2", 3.0}}))->measurement;
  EXPECT_EQ(m.training->outcome, study::TrainingOutcome::kConverged);
  const auto loss = [&](double l2) {
    return made->Evaluate(At({{"l2", l2}}))->measurement->metrics.at("validation_loss");
  };
  const double numeric = (loss(3.0 + 3e-4) - loss(3.0 - 3e-4)) / 6e-4;
  EXPECT_NEAR(m.gradient->values[0], numeric, 1e-5 * std::abs(numeric));
  EvaluationContext loose = At({{"l2", 3.0}});
  loose.tolerance = 0.05;
  const Measurement rough = *made->Evaluate(loose)->measurement;
  EXPECT_EQ(rough.gradient->solve->tolerance, 0.05);
  EXPECT_NEAR(rough.metrics.at("validation_loss"), m.metrics.at("validation_loss"), 0.05);
}

TEST(RegressionObjectiveTest, ModelsPredictWhatTrialsMeasured) {
  const testing::TemporaryDirectory dir;
  const data::DataRoot root = data::DataRoot::Open(dir.path()).value();
  const auto write = [&](const std::string& name, int begin, int end) {
    std::ofstream file(absl::StrCat(dir.path(), "/", name));
    file << "a,b,y\n";
    for (int i = begin; i < end; ++i) {
      file << std::sin(i) << "," << std::cos(3.0 * i) << "," << std::sin(i) + 0.1 * (i % 7) << "\n";
    }
    return name;
  };
  for (const std::string model : {"ridge", "kernel_ridge", "elastic_net", "mlp"}) {
    SCOPED_TRACE(model);
    TrainRequest request;
    request.objective.model = model;
    request.objective.data = write("train.csv", 0, 60);
    request.objective.split.validation_data = write("held.csv", 60, 100);
    request.parameters = {{"l2", 0.5}};
    if (model == "kernel_ridge") request.parameters["gamma"] = 0.3;
    if (model == "elastic_net") request.parameters["l1"] = 0.2;
    const auto trained = TrainModel(request, &root, {});
    ASSERT_TRUE(trained.ok()) << trained.status();
    const auto loaded = model::LoadModel((*trained)->Save(), "m");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    std::vector<ParameterSpec> space = {One("l2")};
    if (request.parameters.contains("gamma")) space.push_back(One("gamma"));
    if (request.parameters.contains("l1")) space.push_back(One("l1"));
    const auto trial = CreateObjective(request.objective, Space(space), kLoss, &root);
    ASSERT_TRUE(trial.ok()) << trial.status();
    const Measurement m = *(*trial)->Evaluate(At(request.parameters))->measurement;
    const auto evaluation = (*loaded)->Evaluate({absl::StrCat(dir.path(), "/held.csv"), {}}).value();
    EXPECT_NEAR(evaluation.metrics.at("loss"), m.metrics.at("validation_loss"), 1e-9);
    EXPECT_NEAR(evaluation.metrics.at("r2"), m.metrics.at("validation_r2"), 1e-9);
    EXPECT_NEAR((*loaded)->info().metrics.at("train_loss"), m.metrics.at("train_loss"), 1e-9);
    EXPECT_EQ((*loaded)->Predict({absl::StrCat(dir.path(), "/held.csv"), {}})->label.size(), 40u);
  }
}

TEST(RegressionObjectiveTest, SeveralTargetsAreTheMeanOfEach) {
  const testing::TemporaryDirectory dir;
  const data::DataRoot root = data::DataRoot::Open(dir.path()).value();
  // All columns, and those without one of the targets.
  std::ofstream both(absl::StrCat(dir.path(), "/both.csv")), first(absl::StrCat(dir.path(), "/first.csv")),
      second(absl::StrCat(dir.path(), "/second.csv"));
  both << "a,v,b,u\n";
  first << "a,b,u\n";
  second << "a,b,v\n";
  for (int i = 0; i < 80; ++i) {
    const double a = std::sin(i), b = i % 5 == 0 ? 0.0 : std::cos(3.0 * i), u = a + 0.1 * (i % 7),
                 v = i % 3 == 0 ? 0.0 : 2.0 - b + 0.1 * (i % 4);
    both << a << "," << v << "," << b << "," << u << "\n";
    first << a << "," << b << "," << u << "\n";
    second << a << "," << b << "," << v << "\n";
  }
  both.close();
  first.close();
  second.close();
  const auto spec = [&](const std::string& data, const std::string& targets) {
    BuiltinObjective s;
    s.model = "ridge";
    s.data = data;
    s.split = {.validation = 0.0, .folds = 3, .seed = 2, .third = 0.2};
    s.options["l2_groups"] = std::string("x: b");
    if (!targets.empty()) s.options["targets"] = targets;
    return s;
  };
  const SearchSpace space = Space({One("l2"), One("l2.x")});
  const auto made = [&](const BuiltinObjective& s) { return CreateObjective(s, space, kLoss, &root); };
  const study::Parameters at = {{"l2", 2.0}, {"l2.x", 0.5}};
  const auto measure = [&](const BuiltinObjective& s) { return *made(s).value()->Evaluate(At(at))->measurement; };
  const Measurement all = measure(spec("both.csv", " v ")), u = measure(spec("first.csv", "")),
                    v = measure(spec("second.csv", ""));
  for (const char* name : {"validation_loss", "train_loss", "third_loss"}) {
    EXPECT_NEAR(all.metrics.at(name), (u.metrics.at(name) + v.metrics.at(name)) / 2.0, 1e-12) << name;
  }
  EXPECT_GT(all.metrics.at("validation_r2"), std::min(u.metrics.at("validation_r2"), v.metrics.at("validation_r2")));
  EXPECT_LT(all.metrics.at("validation_r2"), std::max(u.metrics.at("validation_r2"), v.metrics.at("validation_r2")));
  ASSERT_TRUE(all.gradient && u.gradient && v.gradient);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(all.gradient->values[k], (u.gradient->values[k] + v.gradient->values[k]) / 2.0, 1e-9) << k;
  }
  const auto why = [&](const std::string& targets) { return MessageOf(made(spec("both.csv", targets)).status()); };
  EXPECT_THAT(why("w"), HasSubstr("names \"w\", and there is no such column"));
  EXPECT_THAT(why("v,v"), HasSubstr("names \"v\" twice"));
  EXPECT_THAT(why("u"), HasSubstr("names the label \"u\""));
  EXPECT_THAT(why("a,b,v"), HasSubstr("no column to predict from"));
  BuiltinObjective wrong = spec("both.csv", "v");
  wrong.split.folds = 0;
  wrong.options["criterion"] = std::string("gcv");
  EXPECT_THAT(MessageOf(made(wrong).status()), HasSubstr("targets exclude each other"));
  TrainRequest request;
  request.objective = spec("both.csv", "v");
  request.parameters = at;
  EXPECT_EQ(TrainModel(request, &root, {}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(RegressionObjectiveTest, WrongSettingsSayWhy) {
  const auto data = [](const BuiltinObjective& spec, const SearchSpace& space) {
    return MessageOf(CreateObjective(spec, space, kLoss, nullptr).status());
  };
  EXPECT_THAT(data(Spec("ridge"), Space({List("l2", 3)})), HasSubstr("l2 has 3 strengths, and 4 are needed"));
  EXPECT_THAT(data(Spec("kernel_ridge", {{"l2", 1.0}}), Space({List("gamma", 5)})),
              HasSubstr("gamma has 5 widths, and 4 are needed"));
  BuiltinObjective classes = Spec("ridge");
  classes.data = "synth:logistic?rows=50";
  EXPECT_THAT(data(classes, Space({One("l2")})), HasSubstr("regression"));
  BuiltinObjective stratified = Spec("ridge");
  stratified.split.stratify = true;
  EXPECT_THAT(data(stratified, Space({One("l2")})), HasSubstr("is for classes, and ridge predicts numbers"));
  const auto small = CreateObjective(Spec("kernel_ridge", {{"max_memory_mib", 1.0}, {"gamma", 0.1}}),
                                     Space({One("l2")}), kLoss, nullptr)
                         .value();
  EXPECT_TRUE(small->Evaluate(At({{"l2", 1.0}})).ok());
  BuiltinObjective large = Spec("kernel_ridge", {{"max_memory_mib", 1.0}, {"gamma", 0.1}});
  large.data = "synth:regression?rows=2000";
  EXPECT_THAT(
      MessageOf(
          CreateObjective(large, Space({One("l2")}), kLoss, nullptr).value()->Evaluate(At({{"l2", 1.0}})).status()),
      HasSubstr("max_memory_mib"));
}

TEST(RegressionObjectiveTest, MoreColumnsThanMemoryHoldsAreRefused) {
  for (const char* model : {"ridge", "elastic_net"}) {
    BuiltinObjective wide = Spec(model, {{"max_memory_mib", 1.0}});
    wide.data = "synth:regression?rows=50&cols=9000&density=0.01";
    const char* parameter = std::string(model) == "ridge" ? "l2" : "l1";
    EXPECT_THAT(MessageOf(CreateObjective(wide, Space({One(parameter)}), kLoss, nullptr)
                              .value()
                              ->Evaluate(At({{parameter, 1.0}}))
                              .status()),
                HasSubstr("9000 columns take about 1 MiB a fold, and max_memory_mib is 1"))
        << model;
  }
}

TEST(RegressionObjectiveTest, AKernelThatRoundingDominatesIsNotCalledConverged) {
  // With so small a gamma all entries of the kernel are 1 up to rounding, and l2 is all that makes it regular.
  BuiltinObjective spec = Spec("kernel_ridge", {{"gamma", 1e-10}, {"standardize", false}});
  spec.data = "synth:regression?rows=600&cols=1";
  const auto made = CreateObjective(spec, Space({Float("l2", 1e-10, 1.0)}), kLoss, nullptr).value();
  const Measurement good = *made->Evaluate(At({{"l2", 1.0}}))->measurement;
  EXPECT_EQ(good.training->outcome, study::TrainingOutcome::kConverged);
  EXPECT_TRUE(good.gradient);
  const EvaluationResult bad = made->Evaluate(At({{"l2", 1e-10}})).value();
  ASSERT_TRUE(bad.measurement);
  EXPECT_NE(bad.measurement->training->outcome, study::TrainingOutcome::kConverged);
  EXPECT_GT(*bad.measurement->training->gradient_norm, 1e-10);
}

}  // namespace
}  // namespace luthier::objectives
