#include "lib/study/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/objectives/registry.h"
#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

BuiltinObjective Chains(study::Parameters options, const std::string& seed = "1") {
  BuiltinObjective objective;
  objective.model = "crf";
  objective.data = "synth:sequences?sentences=60&length=8&seed=" + seed;
  objective.split.seed = 4;
  options["tolerance"] = 1e-7;
  options["max_passes"] = 400.0;
  objective.options = std::move(options);
  return objective;
}

struct Trained {
  EvaluationResult result;
  std::string model;
  std::vector<std::string> checkpoints;
};

Trained Train(const Objective& objective, double l2, const std::string& model = "", const std::string& checkpoint = "",
              uint64_t seed = 1) {
  Trained trained;
  EvaluationContext context = At({{"l2", l2}});
  context.seed = seed;
  context.warm_start = model;
  context.checkpoint = checkpoint;
  context.save_model = [&](std::string bytes) { trained.model = std::move(bytes); };
  context.save_checkpoint = [&](std::string bytes) { trained.checkpoints.push_back(std::move(bytes)); };
  trained.result = objective.Evaluate(context).value();
  EXPECT_EQ(trained.result.outcome, EvaluationOutcome::kComplete);
  return trained;
}

struct Case {
  std::string name;
  BuiltinObjective with, without;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* model : {"logistic", "hsvm"}) {
    for (const char* solver : {"lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
      for (const int folds : {0, 2}) {
        study::Parameters options = {{"solver", std::string(solver)},
                                     {"tolerance", 1e-9},
                                     {"checkpoint_every", 1.0},
                                     {"max_iterations", 20000.0}};
        if (model[0] == 'l') options["penalize_intercept"] = true;
        Case c = {std::string(model) + " " + solver, Logistic(options, folds), Logistic(options, folds)};
        c.with.options["warm_start"] = true;
        c.with.model = c.without.model = model;
        cases.push_back(c);
      }
    }
  }
  for (const char* solver : {"sag", "saga2"}) {
    study::Parameters options = {
        {"solver", std::string(solver)}, {"step_rule", std::string("lmax")}, {"checkpoint_every", 1.0}};
    Case c = {std::string("crf ") + solver, Chains(options), Chains(options)};
    c.with.options["warm_start"] = true;
    cases.push_back(c);
  }
  return cases;
}

TEST(WarmStartTest, TheSameOptimumInFewerPassesAndResumedBitForBit) {
  int64_t cold_passes = 0, warm_passes = 0;
  for (const Case& c : Cases()) {
    const auto with = Make(c.with, L2Space(), kLoss);
    const Trained first = Train(*with, 1.0);
    ASSERT_NE(first.model, "") << c.name;
    EXPECT_FALSE(first.result.warm_started);
    const Trained cold = Train(*with, 1.2), warm = Train(*with, 1.2, first.model, "", /*seed=*/2);
    EXPECT_TRUE(warm.result.warm_started) << c.name;
    // One more pass is the gradient at zero.
    EXPECT_LE(warm.result.measurement->step, cold.result.measurement->step + 1) << c.name;
    cold_passes += cold.result.measurement->step;
    warm_passes += warm.result.measurement->step;
    for (const char* metric : {"validation_loss", "train_loss"}) {
      EXPECT_NEAR(warm.result.measurement->metrics.at(metric), cold.result.measurement->metrics.at(metric), 1e-5)
          << c.name;
    }
    // From each of its checkpoints, whether or not the model can still be had.
    if (c.with.options.at("solver") != study::ParameterValue(std::string("newton_cholesky"))) {
      ASSERT_FALSE(warm.checkpoints.empty()) << c.name;
    }
    if (warm.checkpoints.empty()) continue;
    for (const std::string& checkpoint : {warm.checkpoints.front(), warm.checkpoints.back()}) {
      for (const std::string& model : {first.model, std::string()}) {
        const Trained resumed = Train(*with, 1.2, model, checkpoint, 2);
        EXPECT_TRUE(resumed.result.resumed && resumed.result.warm_started) << c.name;
        EXPECT_EQ(resumed.result.measurement, warm.result.measurement) << c.name;
        EXPECT_EQ(resumed.model, warm.model) << c.name;
      }
    }
    // A warm-started model is as good as any to start from.
    EXPECT_TRUE(Train(*with, 1.0, warm.model).result.warm_started) << c.name;
  }
  EXPECT_LT(static_cast<double>(warm_passes), 0.8 * static_cast<double>(cold_passes))
      << warm_passes << " and " << cold_passes;
}

TEST(WarmStartTest, WithoutTheOptionNothingChanges) {
  for (const Case& c : Cases()) {
    const auto with = Make(c.with, L2Space(), kLoss), without = Make(c.without, L2Space(), kLoss);
    const Trained first = Train(*with, 1.0), plain = Train(*without, 1.0, first.model);
    EXPECT_EQ(plain.model, "") << c.name;
    EXPECT_FALSE(plain.result.warm_started);
    EXPECT_EQ(plain.result.measurement, first.result.measurement) << c.name << ": the first of them all is cold";
  }
}

TEST(WarmStartTest, WhatDoesNotFitIsStartedFromZero) {
  const auto changed = [](BuiltinObjective objective, const std::string& name, study::ParameterValue value) {
    objective.options[name] = std::move(value);
    return objective;
  };
  const BuiltinObjective logistic = Logistic({{"warm_start", true}});
  const BuiltinObjective crf = Chains({{"warm_start", true}});
  BuiltinObjective other_rows = logistic, other_folds = logistic, other_sentences = Chains({{"warm_start", true}}, "2");
  other_rows.data = "synth:logistic?rows=200&cols=10&seed=5&noise=0.2";
  other_folds.split.folds = 2;
  struct Pair {
    const char* name;
    BuiltinObjective source, objective;
  };
  for (const Pair& p :
       {Pair{"rows", logistic, other_rows}, Pair{"folds", logistic, other_folds},
        Pair{"intercept", logistic, changed(logistic, "intercept", false)}, Pair{"model", logistic, crf},
        Pair{"sentences", crf, other_sentences}, Pair{"templates", crf, changed(crf, "templates", std::string("w[0]"))},
        Pair{"a method that cannot", changed(crf, "solver", std::string("lbfgs")),
             changed(crf, "solver", std::string("lbfgs"))}}) {
    const auto objective = Make(p.objective, L2Space(), kLoss);
    const Trained cold = Train(*objective, 1.2);
    std::string model = Train(*Make(p.source, L2Space(), kLoss), 1.0).model;
    for (const bool damaged : {false, true}) {
      if (damaged) model[model.size() / 2] = static_cast<char>(~model[model.size() / 2]);
      const Trained trained = Train(*objective, 1.2, model);
      EXPECT_FALSE(trained.result.warm_started) << p.name;
      EXPECT_EQ(trained.result.measurement, cold.result.measurement) << p.name;
    }
  }
}

TEST(WarmStartTest, GroupsOfStrengths) {
  const SearchSpace space =
      Space({Float("l2", 1e-4, 1e4, study::Scale::kLog), Float("l2.a", 1e-4, 1e4, study::Scale::kLog)});
  for (const char* solver : {"lbfgs", "dual"}) {
    const auto objective = Make(Logistic({{"warm_start", true},
                                          {"solver", std::string(solver)},
                                          {"penalize_intercept", true},
                                          {"l2_groups", std::string("a: 1-3")}}),
                                space, kLoss);
    const auto train = [&](double l2, double a, const std::string& model) {
      EvaluationContext context = At({{"l2", l2}, {"l2.a", a}});
      std::string saved;
      context.warm_start = model;
      context.save_model = [&](std::string bytes) { saved = std::move(bytes); };
      return std::make_pair(objective->Evaluate(context).value(), saved);
    };
    const auto first = train(1.0, 10.0, ""), cold = train(1.1, 8.0, ""), warm = train(1.1, 8.0, first.second);
    EXPECT_TRUE(warm.first.warm_started);
    EXPECT_LE(warm.first.measurement->step, cold.first.measurement->step + 1) << solver;
    EXPECT_NEAR(warm.first.measurement->metrics.at("validation_loss"),
                cold.first.measurement->metrics.at("validation_loss"), 1e-7);
  }
}

TEST(WarmStartTest, TheNearestSourceDiffersInStrengthsAlone) {
  using study::NearestSource;
  using study::Parameters;
  const auto at = [](double l2, const std::string& solver) {
    return Parameters{{"l2", l2}, {"l2.a", 1.0}, {"solver", solver}};
  };
  const std::vector<study::WarmSource> sources = {
      {3, at(1.0, "dual")}, {1, at(0.01, "dual")}, {7, at(0.01, "dual")}, {4, at(0.11, "svrg")}, {9, Parameters{}}};
  EXPECT_EQ(NearestSource(sources, at(0.5, "dual")), 3);
  EXPECT_EQ(NearestSource(sources, at(0.02, "dual")), 7) << "the newest of equally near ones";
  EXPECT_EQ(NearestSource(sources, at(0.01, "svrg")), 4);
  EXPECT_EQ(NearestSource(sources, at(0.01, "lbfgs")), 0);
  EXPECT_EQ(NearestSource(sources, {{"l2", 1.0}}), 0);
  EXPECT_EQ(NearestSource({}, at(0.01, "svrg")), 0);
  EXPECT_EQ(NearestSource(sources, {}), 9);
}

TEST(WarmStartTest, IsRefusedWhereTrialsAreComparedByTheirCurves) {
  study::StudySpec spec;
  spec.objective = Logistic({{"warm_start", true}});
  EXPECT_TRUE(study::WarmStarts(spec));
  EXPECT_TRUE(ValidateWarmStart(spec).ok());
  spec.reproducible = true;
  EXPECT_THAT(std::string(ValidateWarmStart(spec).message()), HasSubstr("does not go with `reproducible`"));
  spec.stopping = study::MedianStopping{};
  EXPECT_THAT(std::string(ValidateWarmStart(spec).message()), HasSubstr("does not go with `stopping`"));
  spec.resource = study::Resource{};
  EXPECT_THAT(std::string(ValidateWarmStart(spec).message()), HasSubstr("does not go with `resource`"));
  spec.objective = Logistic({{"warm_start", false}});
  EXPECT_FALSE(study::WarmStarts(spec));
  EXPECT_TRUE(ValidateWarmStart(spec).ok());
  spec.objective = study::ExternalObjective{};
  EXPECT_FALSE(study::WarmStarts(spec));
}

}  // namespace
}  // namespace luthier::objectives
