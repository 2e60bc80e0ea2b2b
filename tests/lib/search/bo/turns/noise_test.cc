#include "lib/search/bo/turns/noise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "lib/study/history.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/metrics_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using ::testing::HasSubstr;

// Standard deviation of the function's values at random settings.
double SpreadOf(const TestFunction& function) {
  base::RandomStream random(7, "tests/noise/spread");
  std::vector<double> values;
  double mean = 0.0, squares = 0.0;
  for (int i = 0; i < 500; ++i) {
    std::vector<double> x;
    for (const auto& [low, high] : function.box) x.push_back(low + (high - low) * random.Uniform());
    values.push_back(function.f(x));
    mean += values.back() / 500;
  }
  for (const double value : values) squares += (value - mean) * (value - mean) / 500;
  return std::sqrt(squares);
}

bool KnowsNoise(const Suggestion& s) {
  return s.details.contains(kNoiseFoundBy);
}

study::HistoryTrial Trial(int64_t number, double x) {
  study::HistoryTrial trial;
  trial.number = number;
  trial.ask_index = static_cast<uint64_t>(number - 1);
  trial.parameters = {{"x0", x}};
  return trial;
}

void Finish(study::History* history, double x, double value) {
  const auto number = static_cast<int64_t>(history->trials().size()) + 1;
  history->AddStored(Trial(number, x));
  history->Finish(number, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
}

TEST(NoiseShownByTest, ADifferenceOfASettingsResultsIsNoise) {
  study::History history;
  Finish(&history, 0.1, 1.0);
  Finish(&history, 0.2, 2.0);
  Finish(&history, 0.1, 1.0);
  EXPECT_EQ(NoiseShownBy(history), 0);
  Finish(&history, 0.2, 2.0 + 1e-5);  // The values' deviation is about 0.5.
  EXPECT_EQ(NoiseShownBy(history), 4);
  Finish(&history, 0.1, 7.0);
  EXPECT_EQ(NoiseShownBy(history), 4);
}

TEST(NoiseShownByTest, TheOrderOfSumsIsNoNoise) {
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    base::RandomStream random(seed, "tests/noise/order");
    const double scale = std::exp(20.0 * random.Normal()), offset = scale * 1e3 * random.Normal();
    study::History history;
    double first = 0.0;
    for (int i = 0; i < 5; ++i) {
      const double value = offset + scale * random.Normal();
      if (i == 0) first = value;
      Finish(&history, 0.1 * i, value);
    }
    Finish(&history, 0.0, first + 1e-8 * scale * random.Normal());
    EXPECT_EQ(NoiseShownBy(history), 0) << seed;
  }
}

// A repeatable objective costs one probe, and its study is never one of noisy results.
TEST(ProbeTest, ARepeatableObjectiveIsProbedOnce) {
  for (const TestFunction& function : SixFunctions()) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      MemoryStudy study(FunctionSpec(function, seed, study::AutoOptions{}));
      std::set<study::Parameters> seen;
      int probes = 0;
      double best = INFINITY;
      for (int ask = 0; ask < 26; ++ask) {
        if (ask % 5 == 4) study.Restart();
        const Suggestion s = study.Ask();
        EXPECT_FALSE(KnowsNoise(s));
        const double value = function.f(Point(s.parameters));
        if (s.origin == "probe") {
          ++probes;
          EXPECT_EQ(value, best) << "the best setting is tried again";
          EXPECT_FALSE(seen.insert(s.parameters).second);
        } else {
          EXPECT_TRUE(seen.insert(s.parameters).second) << s.origin;
        }
        best = std::min(best, value);
        study.Complete(study.newest(), value);
      }
      EXPECT_EQ(probes, 1) << function.name << " " << seed;
      const auto recommended = CreateDesigner(study.spec())->Recommend(study.history(), base::StopToken());
      ASSERT_TRUE(recommended.ok());
      EXPECT_FALSE(recommended->has_value());
    }
  }
}

// Models of a repeatable objective learn nothing from the probe: from the ask after it on, the study goes on as one
// does that was told to be repeatable and had one trial less.
TEST(ProbeTest, AnEqualResultChangesNoModel) {
  const TestFunction branin = SixFunctions()[0];
  MemoryStudy study(FunctionSpec(branin, 3, study::AutoOptions{}));
  for (int ask = 0; ask < 12; ++ask) {
    const Suggestion s = study.Ask();
    study.Complete(study.newest(), branin.f(Point(s.parameters)));
    if (s.details.contains("observations")) {
      EXPECT_EQ(s.details.at("observations"), ask - 1);
    }
  }
}

TEST(ProbeTest, NoProbeWhereItIsKnownOrCannotApply) {
  const auto probes = [](study::StudySpec spec) {
    MemoryStudy study(spec);
    int count = 0;
    for (int ask = 0; ask < 8; ++ask) {
      const Suggestion s = study.Ask();
      count += s.origin == "probe" ? 1 : 0;
      study.Complete(study.newest(), Branin(Point(s.parameters)));
    }
    return count;
  };
  const TestFunction branin = SixFunctions()[0];
  EXPECT_EQ(probes(FunctionSpec(branin, 1, study::AutoOptions{})), 1);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, study::BoOptions{})), 1);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, BoDefaults(study::BoPreset::kHbo))), 1);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, study::AutoOptions{.noisy = false})), 0);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, study::AutoOptions{.noisy = true})), 0);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, study::AutoOptions{.rules = 2})), 0);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, study::BoOptions{.rules = 0})), 0);
  EXPECT_EQ(probes(FunctionSpec(branin, 1, BoDefaults(study::BoPreset::kLbo))), 0);
  study::StudySpec small = FunctionSpec(branin, 1, study::AutoOptions{});
  small.budget.max_trials = 19;
  EXPECT_EQ(probes(small), 0);
  study::StudySpec builtin = FunctionSpec(branin, 1, study::AutoOptions{});
  study::BuiltinObjective function;
  function.model = "function:branin";
  builtin.objective = function;
  EXPECT_EQ(probes(builtin), 0);
}

TEST(ProbeTest, NoiseOfAThousandthIsFound) {
  int runs = 0, found = 0;
  for (const TestFunction& function : SixFunctions()) {
    const double spread = SpreadOf(function);
    for (const double share : {1e-3, 1e-2, 0.1, 1.0}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        base::RandomStream noise(seed, "tests/noise");
        MemoryStudy study(FunctionSpec(function, seed, study::AutoOptions{}));
        ++runs;
        bool known = false;
        for (int ask = 0; ask < 30 && !known; ++ask) {
          const Suggestion s = study.Ask();
          known = KnowsNoise(s);
          study.Complete(study.newest(), function.f(Point(s.parameters)) + share * spread * noise.Normal());
        }
        found += known ? 1 : 0;
      }
    }
  }
  EXPECT_GE(found, 0.95 * runs) << "of " << runs;
}

// Found noise stays: neither an outlier, beside which the difference is small, nor a new designer forgets it. There is
// no local step any more.
TEST(ProbeTest, FoundNoiseStays) {
  const TestFunction branin = SixFunctions()[0];
  base::RandomStream noise(5, "tests/noise");
  MemoryStudy study(FunctionSpec(branin, 5, study::AutoOptions{}));
  double found_by = 0.0;
  for (int ask = 0; ask < 40; ++ask) {
    if (ask % 3 == 0) study.Restart();
    const Suggestion s = study.Ask();
    if (found_by > 0) {
      ASSERT_TRUE(KnowsNoise(s));
      EXPECT_EQ(s.details.at(kNoiseFoundBy), found_by);
      EXPECT_NE(s.origin, "trust_region");
      EXPECT_NE(s.origin, "probe");
    } else if (KnowsNoise(s)) {
      found_by = s.details.at(kNoiseFoundBy);
    }
    study.Complete(study.newest(), ask == 10 ? 1e12 : branin.f(Point(s.parameters)) + noise.Normal());
  }
  EXPECT_GT(found_by, 0.0);
}

// A probe that came to nothing is made again; while one is under way there is no second one.
TEST(ProbeTest, ALostProbeIsMadeAgain) {
  const TestFunction branin = SixFunctions()[0];
  MemoryStudy study(FunctionSpec(branin, 2, study::AutoOptions{}));
  int64_t probe = 0;
  while (probe == 0) {
    const Suggestion s = study.Ask();
    if (s.origin == "probe") {
      probe = study.newest();
    } else {
      study.Complete(study.newest(), branin.f(Point(s.parameters)));
    }
    ASSERT_LT(study.newest(), 10);
  }
  EXPECT_NE(study.Ask().origin, "probe");
  study.Fail(probe, study::FailureKind::kInfra);
  EXPECT_EQ(study.Ask().origin, "probe");
}

TEST(PredictWithoutTest, IsWhatARegressionWithoutTheRowsPredicts) {
  base::RandomStream random(1, "tests/noise/without");
  const Index n = 14, d = 2;
  MatrixXd x(n, d);
  VectorXd y(n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < d; ++j) x(i, j) = random.Uniform();
    y(i) = std::sin(5 * x(i, 0)) + x(i, 1) + 0.1 * random.Normal();
  }
  x.row(9) = x.row(2);
  x.row(13) = x.row(2);
  x.row(11) = x.row(4);
  gp::Hyperparameters theta;
  theta.signal_variance = 1.3;
  theta.noise_variance = 0.02;
  theta.mean = 0.4;
  theta.lengthscales = VectorXd::Constant(d, 0.5);
  const kernels::KernelShape shape = kernels::ArdShape(kernels::Family::kMatern52, static_cast<int>(d));
  const auto fit = [&](const std::vector<Index>& rows) {
    return **gp::Regression::Fit(shape, theta, MatrixXd(x(rows, Eigen::all)), VectorXd(y(rows)), {}, base::StopToken());
  };
  std::vector<Index> all;
  for (Index i = 0; i < n; ++i) all.push_back(i);
  const std::vector<std::vector<Index>> groups = {{0}, {2, 9, 13}, {4, 11}, {7}};
  const absl::StatusOr<VectorXd> without = PredictWithout(fit(all), groups, base::StopToken());
  ASSERT_TRUE(without.ok());
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<Index> rest;
    for (const Index i : all) {
      if (std::find(groups[g].begin(), groups[g].end(), i) == groups[g].end()) rest.push_back(i);
    }
    const double expected = fit(rest).PredictMean(x.row(groups[g][0]))(0);
    EXPECT_NEAR((*without)(static_cast<Index>(g)), expected, 1e-10);
  }
}

// Runs a study of noisy results until it is answered; returns the status, and the history in `study`.
absl::Status RunNoisy(MemoryStudy* study, const TestFunction& function, double sd, uint64_t seed, int most) {
  base::RandomStream noise(seed, "tests/noise/stop");
  for (int ask = 0; ask < most; ++ask) {
    const absl::StatusOr<Suggestion> s = study->TryAsk();
    if (!s.ok()) return s.status();
    study->Complete(study->newest(), function.f(Point(s->parameters)) + sd * noise.Normal());
  }
  return absl::OkStatus();
}

// Most runs have a result beyond the target, which no setting reaches: luck ends no study.
TEST(RecommendationTest, ALuckyResultReachesNoTarget) {
  const TestFunction branin = SixFunctions()[0];
  const double sd = 20.0;
  int lucky = 0, ended = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    study::StudySpec spec = FunctionSpec(branin, seed, study::AutoOptions{.noisy = true});
    spec.budget.target_value = branin.minimum - 0.7 * sd;
    MemoryStudy study(spec);
    ended += RunNoisy(&study, branin, sd, seed, 40).ok() ? 0 : 1;
    double best = INFINITY;
    for (const study::HistoryTrial& trial : study.history().trials()) best = std::min(best, *trial.value);
    lucky += best < *spec.budget.target_value ? 1 : 0;
  }
  EXPECT_LE(ended, 1) << "a deviation is no certainty";
  EXPECT_GE(lucky, 5) << "the test says nothing";
}

TEST(RecommendationTest, AnExpectedValueReachesTheTarget) {
  const TestFunction branin = SixFunctions()[0];
  for (uint64_t seed = 0; seed < 6; ++seed) {
    study::StudySpec spec = FunctionSpec(branin, seed, study::AutoOptions{});
    spec.budget.target_value = branin.minimum + 5.0;
    MemoryStudy study(spec);
    const absl::Status status = RunNoisy(&study, branin, 1.0, seed, 60);
    EXPECT_EQ(base::GetReason(status), base::reason::kAnswered) << seed;
    EXPECT_THAT(status.message(), HasSubstr("target_value reached by trial"));
    const auto recommended = CreateDesigner(spec)->Recommend(study.history(), base::StopToken());
    ASSERT_TRUE(recommended.ok() && recommended->has_value());
    EXPECT_LE((*recommended)->mean, *spec.budget.target_value);
    EXPECT_TRUE((*recommended)->found_by.has_value());
    const study::HistoryTrial& trial = study.history().trials()[static_cast<size_t>((*recommended)->trial - 1)];
    EXPECT_LT(branin.f(Point(trial.parameters)), branin.minimum + 8.0);
  }
}

TEST(RecommendationTest, PatienceCountsFromTheRecommendedTrial) {
  const TestFunction branin = SixFunctions()[0];
  study::StudySpec spec = FunctionSpec(branin, 4, study::AutoOptions{.noisy = true});
  spec.budget.patience = 12;
  MemoryStudy study(spec);
  const absl::Status status = RunNoisy(&study, branin, 5.0, 4, 100);
  ASSERT_EQ(base::GetReason(status), base::reason::kAnswered);
  const auto recommended = CreateDesigner(spec)->Recommend(study.history(), base::StopToken());
  ASSERT_TRUE(recommended.ok() && recommended->has_value());
  EXPECT_GE(study.newest() - (*recommended)->trial, 12);
}

// With much noise the recommended setting is better than the one with the best value.
TEST(RecommendationTest, IsBetterThanTheBestValue) {
  double reported = 0.0, recommended = 0.0;
  for (const TestFunction& function : SixFunctions()) {
    const double sd = 0.5 * SpreadOf(function);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      MemoryStudy study(FunctionSpec(function, seed, study::AutoOptions{}));
      ASSERT_TRUE(RunNoisy(&study, function, sd, seed, 40).ok());
      const study::HistoryTrial* best = nullptr;
      for (const study::HistoryTrial& trial : study.history().trials()) {
        if (best == nullptr || *trial.value < *best->value) best = &trial;
      }
      const auto one = CreateDesigner(study.spec())->Recommend(study.history(), base::StopToken());
      ASSERT_TRUE(one.ok() && one->has_value());
      const auto& taken = study.history().trials()[static_cast<size_t>((*one)->trial - 1)];
      reported += (function.f(Point(best->parameters)) - function.minimum) / sd;
      recommended += (function.f(Point(taken.parameters)) - function.minimum) / sd;
      EXPECT_GT((*one)->noise_sd, 0.0);
    }
  }
  EXPECT_LT(recommended, reported);
}

// A recommendation is a function of the history alone.
TEST(RecommendationTest, ANewDesignerRecommendsTheSame) {
  const TestFunction branin = SixFunctions()[0];
  MemoryStudy study(FunctionSpec(branin, 9, study::AutoOptions{}));
  ASSERT_TRUE(RunNoisy(&study, branin, 3.0, 9, 30).ok());
  const std::unique_ptr<Designer> designer = CreateDesigner(study.spec());
  const auto first = designer->Recommend(study.history(), base::StopToken());
  ASSERT_TRUE(designer->Suggest(study.history(), 30, base::StopToken()).ok());
  const auto second = designer->Recommend(study.history(), base::StopToken());
  ASSERT_TRUE(first.ok() && second.ok() && first->has_value() && second->has_value());
  EXPECT_EQ((*first)->trial, (*second)->trial);
  EXPECT_EQ((*first)->mean, (*second)->mean);
  EXPECT_EQ((*first)->sd, (*second)->sd);
}

// A model that smooths the bounded metric expects some settings within the bound that were measured beyond it.
TEST(RecommendationTest, WhatWasMeasuredBeyondABoundIsNotRecommended) {
  int recommended = 0, best_beyond = 0;
  for (const double noise_of_bound : {0.0, 0.05}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      base::RandomStream noise(seed, "tests/noise/bounds");
      const auto f = [&](const study::Parameters& setting) {
        const std::vector<double> x = Point(setting);
        return std::vector<double>{std::pow(x[0] - 0.9, 2) + std::pow(x[1] - 0.8, 2) + 0.02 * noise.Normal(),
                                   0.6 * x[0] + 0.4 * std::sin(3 * x[1]) * x[1] + noise_of_bound * noise.Normal()};
      };
      MetricsStudy study(MetricsSpec(Space({Float("x0", 0, 1), Float("x1", 0, 1)}), {Objective("a"), AtMost("c", 0.5)},
                                     seed, study::AutoOptions{.noisy = true}),
                         f);
      for (int ask = 0; ask < 30; ++ask) {
        ASSERT_TRUE(study.Ask().ok());
        study.Complete(study.newest());
      }
      const auto found = CreateDesigner(study.spec())->Recommend(study.history(), base::StopToken());
      ASSERT_TRUE(found.ok());
      if (!found->has_value()) continue;
      ++recommended;
      EXPECT_TRUE(study.history().trials()[static_cast<size_t>((*found)->trial - 1)].feasible) << "seed " << seed;
      study::StudySpec former = study.spec();
      former.algorithm = study::AutoOptions{.noisy = true, .rules = 4};
      const auto before = CreateDesigner(former)->Recommend(study.history(), base::StopToken());
      ASSERT_TRUE(before.ok() && before->has_value());
      best_beyond += study.history().trials()[static_cast<size_t>((*before)->trial - 1)].feasible ? 0 : 1;
    }
  }
  EXPECT_GE(recommended, 14);
  EXPECT_GE(best_beyond, 1) << "the test says nothing";
}

}  // namespace
}  // namespace luthier::search
