#include "lib/search/tpe/tpe_designer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/search/quasi_random/random_designer.h"
#include "lib/search/registry.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/search/restart_oracle.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using namespace study;
using contract::FakeStudy;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Objective = std::function<double(const Parameters&)>;

StudySpec TpeStudy(SearchSpace space, AlgorithmSpec algorithm = TpeOptions(), uint64_t seed = 0) {
  StudySpec spec;
  spec.space = std::move(space);
  spec.metric.name = "loss";
  spec.metric.goal = Goal::kMinimize;
  spec.algorithm = std::move(algorithm);
  spec.seed = seed;
  return spec;
}

double NumberOf(const Parameters& parameters, const std::string& name) {
  return std::get<double>(parameters.at(name));
}

// Asks and finishes one trial after the other.
Suggestion Step(Designer& designer, FakeStudy* study,
                const std::function<contract::Outcome(const Parameters&)>& ending) {
  const Suggestion suggestion = designer.Suggest(study->history(), study->asks(), base::StopToken()).value();
  study->Suggested(suggestion);
  study->Finish(study->Store(), ending(suggestion.parameters));
  return suggestion;
}

double BestOf(const StudySpec& spec, const Objective& f, int trials) {
  const auto designer = CreateDesigner(spec);
  FakeStudy study;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < trials; ++i) {
    Step(*designer, &study, [&](const Parameters& p) {
      best = std::min(best, f(p));
      return contract::Complete(f(p));
    });
  }
  return best;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

TEST(TpeDesignerTest, BeginsAsRandomSearchPointForPoint) {
  const SearchSpace space = Space({Float("x", 0, 1), Categorical("c", {"a", "b"}), When("c", {"a"}, Int("n", 0, 9))});
  const StudySpec spec = TpeStudy(space, TpeOptions(), 5);
  const auto designer = CreateDesigner(spec);
  FakeStudy study;
  for (uint64_t ask = 0; ask < 10; ++ask) {
    const Suggestion s =
        Step(*designer, &study, [](const Parameters& p) { return contract::Complete(NumberOf(p, "x")); });
    EXPECT_EQ(s.parameters, ExplorationPoint(Encoding(space), 5, ask));
    EXPECT_EQ(s.origin, "random");
  }
  EXPECT_EQ(designer->Suggest(study.history(), 10, base::StopToken())->origin, "tpe");
}

// The oracle of the specification: f = (x - 3)^2 in [-10, 10], 100 trials, 20 seeds.
TEST(TpeDesignerTest, FindsTheBottomOfAParabola) {
  const SearchSpace space = Space({Float("x", -10, 10)});
  const Objective f = [](const Parameters& p) { return std::pow(NumberOf(p, "x") - 3.0, 2.0); };
  std::vector<double> tpe, random;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    tpe.push_back(BestOf(TpeStudy(space, TpeOptions(), seed), f, 100));
    random.push_back(BestOf(TpeStudy(space, RandomOptions(), seed), f, 100));
  }
  EXPECT_LT(Median(tpe), 1e-3);
  EXPECT_LT(Median(tpe), Median(random));
}

TEST(TpeDesignerTest, BeatsRandomSearchOnTwentyAdditiveParameters) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < 20; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  const SearchSpace space = Space(parameters);
  const Objective f = [](const Parameters& p) {
    double sum = 0.0;
    for (const auto& [name, value] : p) sum += std::pow(std::get<double>(value) - 0.7, 2.0);
    return sum;
  };
  for (const bool multivariate : {true, false}) {
    int wins = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      wins += BestOf(TpeStudy(space, TpeOptions{.multivariate = multivariate}, seed), f, 60) <
              BestOf(TpeStudy(space, RandomOptions(), seed), f, 60);
    }
    EXPECT_GE(wins, 16) << multivariate;
  }
}

TEST(TpeDesignerTest, MaximizesWhenAsked) {
  StudySpec spec = TpeStudy(Space({Float("x", 0, 1)}));
  spec.metric.goal = Goal::kMaximize;
  const auto designer = CreateDesigner(spec);
  FakeStudy study;
  double sum = 0.0;
  for (int i = 0; i < 60; ++i) {
    const Suggestion s =
        Step(*designer, &study, [](const Parameters& p) { return contract::Complete(NumberOf(p, "x")); });
    if (i >= 40) sum += NumberOf(s.parameters, "x") / 20.0;
  }
  EXPECT_GT(sum, 0.8);
}

// The sizes of l and g say where each kind of trial went.
TEST(TpeDesignerTest, EveryKindOfTrialGoesWhereItBelongs) {
  const StudySpec spec = TpeStudy(Space({Float("x", 0, 1)}), TpeOptions{.startup_trials = 3});
  const auto designer = CreateDesigner(spec);
  FakeStudy study;
  base::RandomStream random(1, "test/points");
  const auto enqueue = [&] { return study.Enqueue({{"x", random.Uniform()}}); };
  const auto sizes = [&] {
    const Suggestion s = designer->Suggest(study.history(), 0, base::StopToken()).value();
    return s.origin == "tpe" ? std::pair<double, double>(s.details.at("below"), s.details.at("above"))
                             : std::pair<double, double>(-1, -1);
  };
  for (int i = 0; i < 30; ++i) study.Finish(enqueue(), contract::Failed(FailureKind::kConfig));
  EXPECT_EQ(sizes().first, -1) << "failures are no results";
  for (int i = 0; i < 3; ++i) study.Finish(enqueue(), contract::Complete(i));
  // 33 finished: ceil(3.3) = 4 good ones, but only 3 that have a value.
  EXPECT_EQ(sizes(), std::make_pair(3.0, 30.0));
  enqueue();
  EXPECT_EQ(sizes(), std::make_pair(3.0, 31.0)) << "an open trial";
  study.Finish(enqueue(), contract::Failed(FailureKind::kInfra));
  study.Finish(enqueue(), contract::Cancelled());
  EXPECT_EQ(sizes(), std::make_pair(3.0, 31.0)) << "lost and cancelled trials say nothing";
  study.Finish(enqueue(), contract::Pruned(std::nullopt));
  EXPECT_EQ(sizes(), std::make_pair(3.0, 32.0)) << "pruned without a value";
  study.Finish(enqueue(), contract::Pruned(-5.0));
  EXPECT_EQ(sizes(), std::make_pair(4.0, 32.0)) << "pruned with one";
  for (int i = 0; i < 300; ++i) study.Finish(enqueue(), contract::Complete(i));
  EXPECT_EQ(sizes(), std::make_pair(25.0, 311.0));
}

// Complete results before pruned ones; pruned ones that got farther before the others. The good settings are then
// those near their x, which is where suggestions go.
TEST(TpeDesignerTest, PrunedTrialsRankByHowFarTheyGot) {
  const StudySpec spec = TpeStudy(Space({Float("x", 0, 1)}), TpeOptions{.startup_trials = 1});
  const auto mean = [&](const History& history) {
    double sum = 0.0;
    for (uint64_t ask = 0; ask < 40; ++ask) {
      sum += NumberOf(CreateDesigner(spec)->Suggest(history, ask, base::StopToken())->parameters, "x") / 40.0;
    }
    return sum;
  };
  const auto history = [](int64_t low_step, int64_t high_step) {
    History h;
    for (int64_t i = 0; i < 40; ++i) {
      HistoryTrial trial;
      trial.number = i + 1;
      trial.parameters = {{"x", static_cast<double>(i) / 40.0}};
      h.AddStored(trial);
      h.Finish(i + 1, TrialState::kPruned, i < 20 ? 0.0 : 1.0, std::nullopt, std::nullopt, "",
               i < 20 ? low_step : high_step);
    }
    return h;
  };
  EXPECT_LT(mean(history(5, 5)), 0.4) << "equal steps: the value decides";
  EXPECT_GT(mean(history(5, 9)), 0.45) << "the farther one wins";
}

TEST(TpeDesignerTest, OpenTrialsKeepOthersAway) {
  const StudySpec spec = TpeStudy(Space({Float("x", 0, 1)}));
  FakeStudy study;
  for (int i = 0; i < 30; ++i) {
    const double x = (i + 0.5) / 30.0;
    study.Finish(study.Enqueue({{"x", x}}), contract::Complete(std::abs(x - 0.5)));
  }
  const auto near = [&] {
    int count = 0;
    for (uint64_t ask = 0; ask < 100; ++ask) {
      const Suggestion s = CreateDesigner(spec)->Suggest(study.history(), ask, base::StopToken()).value();
      count += std::abs(NumberOf(s.parameters, "x") - 0.5) < 0.03;
    }
    return count;
  };
  const int before = near();
  for (int i = 0; i < 20; ++i) study.Enqueue({{"x", 0.5}});
  EXPECT_LT(near(), before / 2);
}

TEST(TpeDesignerTest, TheOrderInWhichResultsArriveChangesNothing) {
  const StudySpec spec = TpeStudy(Space({Float("x", 0, 1), Categorical("c", {"a", "b", "c"})}));
  FakeStudy forward, backward;
  base::RandomStream random(2, "test/points");
  const Encoding encoding(spec.space);
  for (int i = 0; i < 40; ++i) {
    const Parameters p = encoding.Sample(random);
    forward.Enqueue(p);
    backward.Enqueue(p);
  }
  for (int64_t i = 1; i <= 40; ++i) {
    forward.Finish(i, contract::Complete(static_cast<double>(i % 7)));
    backward.Finish(41 - i, contract::Complete(static_cast<double>((41 - i) % 7)));
  }
  EXPECT_EQ(CreateDesigner(spec)->Suggest(forward.history(), 3, base::StopToken())->parameters,
            CreateDesigner(spec)->Suggest(backward.history(), 3, base::StopToken())->parameters);
}

// What a designer keeps from ask to ask is a function of the settings it is asked about.
TEST(TpeDesignerTest, AnotherHistoryIsNoticed) {
  const StudySpec spec = TpeStudy(Space({Float("x", 0, 1), Categorical("c", {"a", "b", "c"})}));
  const Encoding encoding(spec.space);
  const auto designer = CreateDesigner(spec);
  base::RandomStream random(3, "test/points");
  const auto study_of = [&](int64_t trials, int64_t finished) {
    FakeStudy study;
    for (int64_t i = 0; i < trials; ++i) study.Enqueue(encoding.Sample(random));
    for (int64_t i = 1; i <= finished; ++i) study.Finish(i, contract::Complete(static_cast<double>(i * 7 % 11)));
    return study;
  };
  const FakeStudy studies[] = {study_of(60, 50), study_of(30, 30), study_of(80, 20), study_of(60, 60)};
  for (const FakeStudy& study : studies) {
    EXPECT_EQ(designer->Suggest(study.history(), 3, base::StopToken())->parameters,
              CreateDesigner(spec)->Suggest(study.history(), 3, base::StopToken())->parameters);
  }
}

// What is good in one branch must be found although the other branch has other parameters.
TEST(TpeDesignerTest, ConditionalParametersAreLearntWhereTheyExist) {
  const SearchSpace space = Space({Categorical("kind", {"a", "b"}), When("kind", {"a"}, Float("x", 0, 1)),
                                   When("kind", {"a"}, Float("y", 0, 1)), When("kind", {"b"}, Float("z", 0, 1))});
  const Objective f = [](const Parameters& p) {
    if (p.count("z") > 0) return 0.5 + std::abs(NumberOf(p, "z") - 0.9);
    return std::abs(NumberOf(p, "x") - 0.2) + std::abs(NumberOf(p, "y") - 0.8);
  };
  std::vector<double> tpe, random;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    tpe.push_back(BestOf(TpeStudy(space, TpeOptions(), seed), f, 100));
    random.push_back(BestOf(TpeStudy(space, RandomOptions(), seed), f, 100));
  }
  EXPECT_LT(Median(tpe), 0.05);
  EXPECT_LT(Median(tpe), 0.6 * Median(random));
}

// The best label pair is a trap for estimators that look at one parameter at a time.
TEST(TpeDesignerTest, JointDensitiesSeePairsOfLabels) {
  const SearchSpace space = Space({Categorical("a", Labels(6)), Categorical("b", Labels(6))});
  const Objective f = [](const Parameters& p) {
    const auto label = [&](const char* name) { return std::get<std::string>(p.at(name)).back() - '0'; };
    return label("a") == label("b") ? 0.1 * label("a") : 1.0;
  };
  int hits = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) hits += BestOf(TpeStudy(space, TpeOptions(), seed), f, 30) == 0.0;
  EXPECT_GE(hits, 16);
}

TEST(TpeDesignerTest, EqualLossesAreLegal) {
  const StudySpec spec = TpeStudy(Space({Float("x", 0, 1), Int("n", 1, 3)}));
  const auto designer = CreateDesigner(spec);
  FakeStudy study;
  for (int i = 0; i < 30; ++i) Step(*designer, &study, [](const Parameters&) { return contract::Complete(1.0); });
}

TEST(TpeDesignerTest, RestartsChangeNothing) {
  const SearchSpace space = Space({Float("x", 1e-5, 1, Scale::kLog), Int("n", 1, 50), Categorical("c", {"a", "b", "c"}),
                                   When("c", {"a", "b"}, Float("y", 0, 1)), When("c", {"a"}, Bool("z"))});
  for (const bool multivariate : {true, false}) {
    const TpeOptions options{.startup_trials = 5, .multivariate = multivariate};
    ExpectRestartsChangeNothing(TpeStudy(space, options),
                                {.asks = 60, .ending = [](base::RandomStream& random, const Parameters& p) {
                                   if (random.UniformInt(8) == 0) return contract::Failed(FailureKind::kConfig);
                                   return contract::Complete(NumberOf(p, "x") + NumberOf(p, "n"));
                                 }});
  }
}

TEST(TpeDesignerTest, OptionsAreValidated) {
  const SearchSpace space = Space({Float("x", 0, 1)});
  const auto error = [&](const TpeOptions& options) {
    return std::string(Validate(TpeStudy(space, options)).message());
  };
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error({.startup_trials = 10'000, .candidates = 1}), "");
  EXPECT_THAT(error({.startup_trials = 0, .candidates = 0}),
              AllOf(HasSubstr("algorithm.tpe.startup_trials: 0"), HasSubstr("algorithm.tpe.candidates: 0")));
  EXPECT_THAT(error({.candidates = 10'001}), HasSubstr("algorithm.tpe.candidates: 10001 is not between 1 and 10000"));
}

}  // namespace
}  // namespace luthier::search
