// Trials that start from the model of an earlier one.
#include "lib/study/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/objectives/objective.h"
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
  options["max_passes"] = 4000.0;
  objective.options = std::move(options);
  return objective;
}

struct Trained {
  EvaluationResult result;
  std::string model;
  std::vector<std::string> checkpoints;
};

Trained Train(const Objective& objective, study::Parameters penalties, const std::string& model = "",
              const std::string& checkpoint = "", uint64_t seed = 1) {
  Trained trained;
  EvaluationContext context = At(std::move(penalties));
  context.seed = seed;
  context.warm_start = model;
  context.checkpoint = checkpoint;
  context.save_model = [&](std::string bytes) { trained.model = std::move(bytes); };
  context.save_checkpoint = [&](std::string bytes) { trained.checkpoints.push_back(std::move(bytes)); };
  trained.result = objective.Evaluate(context).value();
  EXPECT_EQ(trained.result.outcome, EvaluationOutcome::kComplete);
  return trained;
}

Trained Train(const Objective& objective, double l2, const std::string& model = "", const std::string& checkpoint = "",
              uint64_t seed = 1) {
  return Train(objective, study::Parameters{{"l2", l2}}, model, checkpoint, seed);
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
  struct Chain {
    const char* solver;
    double l1;
    int folds;
  };
  for (const Chain& chain :
       {Chain{"sag", 0.0, 0}, Chain{"saga", 0.0, 2}, Chain{"sag", 0.5, 2}, Chain{"lbfgs", 0.0, 2}}) {
    study::Parameters options = {{"solver", std::string(chain.solver)}, {"checkpoint_every", 1.0}, {"l1", chain.l1}};
    Case c = {absl::StrCat("crf ", chain.solver, " ", chain.l1), Chains(options), Chains(options)};
    c.with.options["warm_start"] = true;
    c.with.split.folds = c.without.split.folds = chain.folds;
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
    // One more pass is the gradient at zero, one the first step of lbfgs. The long steps of sag lead away now and then
    // where sequences are few, in whichever training.
    const bool wanders = c.with.options.at("solver") == study::ParameterValue(std::string("sag"));
    if (!wanders) {
      EXPECT_LE(warm.result.measurement->step, cold.result.measurement->step + 2) << c.name;
      cold_passes += cold.result.measurement->step;
      warm_passes += warm.result.measurement->step;
    }
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

// A model that was differentiated holds its adjoint, and the next one's linear system starts there.
TEST(WarmStartTest, TheAdjointIsWarmToo) {
  study::Parameters options = {{"warm_start", true}, {"solver", std::string("newton_cg")}, {"intercept", false}};
  BuiltinObjective logistic = Logistic(options);
  logistic.data = "synth:logistic?rows=600&cols=300&seed=2";  // Systems that take many products.
  const auto objective = Make(logistic, L2Space(), kLoss);
  double passes[2];
  std::vector<double> gradients[2];
  for (const bool differentiated : {false, true}) {
    std::string model;
    EvaluationContext context = At({{"l2", 1.0}});
    context.gradient = differentiated ? GradientUse::kFull : GradientUse::kNone;
    context.tolerance = 1e-4;
    context.by_gradients_alone = true;
    context.save_model = [&](std::string bytes) { model = std::move(bytes); };
    ASSERT_TRUE(objective->Evaluate(context).ok());
    context.parameters = {{"l2", 1.001}};
    context.gradient = GradientUse::kFull;
    context.warm_start = model;
    const EvaluationResult result = objective->Evaluate(context).value();
    EXPECT_TRUE(result.warm_started);
    passes[differentiated] = result.passes;
    gradients[differentiated] = result.measurement->gradient->values;
  }
  EXPECT_LT(passes[1], passes[0] - 1.0);
  EXPECT_NEAR(gradients[1][0], gradients[0][0], 1e-3 * std::abs(gradients[0][0]));
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

TEST(WarmStartTest, ModelsThatDoNotFitAreReplacedByZero) {
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
        Pair{"groups", changed(changed(crf, "l2_groups", std::string("bias")), "l2.bias", 2.0), crf},
        Pair{"l1", changed(crf, "l1", 0.5), crf}}) {
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

// Equal penalties to groups, groups to groups, and back; penalties of l1, too.
TEST(WarmStartTest, StrengthsOfGroupsOfChains) {
  const SearchSpace space =
      Space({Float("l2", 1e-4, 1e4, study::Scale::kLog), Float("l2.words", 1e-4, 1e4, study::Scale::kLog),
             Float("l1", 1e-4, 1e4, study::Scale::kLog), Float("l1.words", 0.0, 1e4)});
  const auto at = [](double l2, double words, double l1, double l1_words) {
    return study::Parameters{{"l2", l2}, {"l2.words", words}, {"l1", l1}, {"l1.words", l1_words}};
  };
  const std::vector<study::Parameters> path = {at(1.0, 1.0, 0.2, 0.2), at(1.1, 1.3, 0.2, 0.2), at(1.1, 1.1, 0.25, 0.2),
                                               at(1.0, 1.2, 0.25, 0.3)};
  int64_t cold_passes = 0, warm_passes = 0;
  for (const char* solver : {"sag", "saga"}) {
    const auto objective =
        Make(Chains({{"warm_start", true}, {"solver", std::string(solver)}, {"l2_groups", std::string("words: w*")}}),
             space, kLoss);
    std::string model = Train(*objective, path[0]).model;
    for (size_t k = 1; k < path.size(); ++k) {
      const Trained cold = Train(*objective, path[k]), warm = Train(*objective, path[k], model);
      EXPECT_TRUE(warm.result.warm_started);
      for (const char* metric : {"validation_loss", "train_loss"}) {
        EXPECT_NEAR(warm.result.measurement->metrics.at(metric), cold.result.measurement->metrics.at(metric), 1e-6);
      }
      EXPECT_EQ(warm.result.measurement->metrics.at("active_weights"),
                cold.result.measurement->metrics.at("active_weights"));
      cold_passes += cold.result.measurement->step;
      warm_passes += warm.result.measurement->step;
      model = warm.model;
    }
  }
  EXPECT_LT(static_cast<double>(warm_passes), 0.9 * static_cast<double>(cold_passes))
      << warm_passes << " and " << cold_passes;
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

TEST(WarmStartTest, IsRefusedWhereTrialsAreComparedByTheirCurves) {
  study::StudySpec spec;
  spec.objective = Logistic({{"warm_start", true}});
  EXPECT_TRUE(study::WarmStarts(spec));
  EXPECT_TRUE(catalogue::ValidateUse(spec).ok());
  spec.reproducible = true;
  EXPECT_THAT(std::string(catalogue::ValidateUse(spec).message()), HasSubstr("does not go with `reproducible`"));
  spec.stopping = study::MedianStopping{};
  EXPECT_THAT(std::string(catalogue::ValidateUse(spec).message()), HasSubstr("does not go with `stopping`"));
  spec.resource = study::Resource{};
  EXPECT_THAT(std::string(catalogue::ValidateUse(spec).message()), HasSubstr("does not go with `resource`"));
  spec.objective = Logistic({{"warm_start", false}});
  EXPECT_FALSE(study::WarmStarts(spec));
  EXPECT_TRUE(catalogue::ValidateUse(spec).ok());
  spec.objective = study::ExternalObjective{};
  EXPECT_FALSE(study::WarmStarts(spec));
}

}  // namespace
}  // namespace luthier::objectives
