#include "lib/stopping/stopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "lib/stopping/quantile.h"
#include "tests/lib/study/builders.h"

namespace luthier::stopping {
namespace {

using ::testing::HasSubstr;
using namespace study;

constexpr double kNever = std::numeric_limits<double>::infinity();

StudySpec Spec(std::optional<StoppingRule> rule, AlgorithmSpec algorithm = RandomOptions{}) {
  StudySpec spec;
  spec.space = Space({Float("x", 0, 1)});
  spec.metric.name = "loss";
  spec.algorithm = std::move(algorithm);
  spec.resource = Resource{.min = 1, .max = 27, .unit = ""};
  spec.stopping = rule;
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
  EXPECT_TRUE(search::Validate(spec).ok()) << search::Validate(spec);
  return spec;
}

AlgorithmSpec AshaStop(int32_t eta = 3) {
  AshaOptions options;
  options.variant = AshaVariant::kStop;
  options.eta = eta;
  return options;
}

TEST(AtTargetTest, PausesOnlyWhereATargetBelowTheWholeIsReached) {
  const Resource resource{.min = 1, .max = 81, .unit = "epochs"};
  EXPECT_EQ(AtTarget(resource, 0, 50).verdict, Verdict::kContinue);
  EXPECT_EQ(AtTarget(resource, 9, 8).verdict, Verdict::kContinue);
  EXPECT_EQ(AtTarget(resource, 9, 9), (Decision{Verdict::kPause, "reached 9 epochs"}));
  EXPECT_EQ(AtTarget(resource, 9, 12).verdict, Verdict::kPause);  // It reports every fourth step.
  EXPECT_EQ(AtTarget(resource, 81, 81).verdict, Verdict::kContinue);
}

TEST(CreateStopperTest, AStopperExistsOnlyWithARule) {
  EXPECT_EQ(CreateStopper(Spec(std::nullopt)), nullptr);
  EXPECT_EQ(CreateStopper(Spec(std::nullopt, AshaOptions{})), nullptr);
  EXPECT_NE(CreateStopper(Spec(std::nullopt, AshaStop())), nullptr);
  EXPECT_NE(CreateStopper(Spec(MedianStopping{})), nullptr);
}

// --- Percentiles ---

double SortedQuantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double h = static_cast<double>(values.size() - 1) * share;
  const auto lower = static_cast<size_t>(h);
  const size_t upper = std::min(lower + 1, values.size() - 1);
  return values[lower] + (h - static_cast<double>(lower)) * (values[upper] - values[lower]);
}

TEST(QuantileTest, AgreesWithSorting) {
  for (const double share : {0.5, 0.25, 0.9, 0.01, 0.99, 1.0 / 3.0}) {
    base::RandomStream random(1, "test/quantile");
    RunningQuantile quantile(share);
    std::vector<double> values;
    for (int i = 0; i < 300; ++i) {
      values.push_back(i % 3 == 0 ? std::floor(random.Uniform() * 4) : random.Normal());
      quantile.Add(values.back());
      ASSERT_NEAR(quantile.Value(), SortedQuantile(values, share), 1e-12) << i << " " << share;
      std::vector<double> more = values;
      const size_t beyond = random.UniformInt(8);
      more.resize(values.size() + beyond, 1e300);
      const double value = SortedQuantile(more, share);
      if (value < 1e200) {
        ASSERT_NEAR(quantile.Value(beyond), value, 1e-12) << i << " " << share << " " << beyond;
      } else {
        ASSERT_EQ(quantile.Value(beyond), kNever) << i << " " << share << " " << beyond;
      }
    }
  }
}

// What the rule says, from all that was reported, without any bookkeeping.
class NaiveStudy {
 public:
  std::map<int64_t, std::map<int64_t, double>> curves;
  std::map<int64_t, TrialState> ended;
  std::map<int64_t, double> final_value;

  bool PercentileStops(const PercentileStopping& rule, int64_t trial, int64_t step) const {
    if (step < rule.warmup) return false;
    double best = kNever;
    int64_t reports = 0;
    for (const auto& [s, value] : curves.at(trial)) {
      if (s > step) break;
      ++reports;
      if (std::isfinite(value)) best = std::min(best, value);
    }
    if (reports % rule.interval != 0) return false;
    int64_t complete = 0;
    int64_t stopped_before = 0;
    std::vector<double> others;
    for (const auto& [other, state] : ended) {
      if (state != TrialState::kComplete && state != TrialState::kPruned) continue;
      complete += state == TrialState::kComplete;
      const auto curve = curves.find(other);
      if (curve == curves.end()) continue;
      if (state == TrialState::kPruned && curve->second.rbegin()->first < step) {
        ++stopped_before;
        continue;
      }
      const auto there = curve->second.find(step);
      if (there == curve->second.end() || !std::isfinite(there->second)) continue;
      double sum = 0.0;
      double count = 0.0;
      for (const auto& [s, value] : curve->second) {
        if (s > step || !std::isfinite(value)) continue;
        sum += value;
        count += 1.0;
      }
      others.push_back(rule.running_mean ? sum / count : there->second);
    }
    if (complete < rule.min_trials || others.empty()) return false;
    if (!std::isfinite(best)) return true;
    // So large that no interpolation towards it is ever undercut.
    for (int64_t i = 0; i < stopped_before; ++i) others.push_back(1e300);
    return best > SortedQuantile(others, rule.percentile / 100.0) + 1e-12;
  }
};

TEST(PercentileStopperTest, AgreesWithCountingAnewWhateverTheOrder) {
  int stops = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream random(seed, "test/percentile");
    PercentileStopping rule;
    rule.percentile = seed % 3 == 0 ? 50.0 : 10.0 + 80.0 * random.Uniform();
    rule.warmup = static_cast<int64_t>(random.UniformInt(3));
    rule.min_trials = 1 + static_cast<int64_t>(random.UniformInt(4));
    rule.interval = 1 + static_cast<int64_t>(random.UniformInt(2));
    rule.running_mean = seed % 2 == 0;
    const StudySpec spec = Spec(rule);
    const std::unique_ptr<Stopper> stopper = CreateStopper(spec);
    NaiveStudy naive;
    std::map<int64_t, int64_t> step;
    for (int i = 0; i < 400; ++i) {
      const int64_t trial = 1 + static_cast<int64_t>(random.UniformInt(25));
      if (naive.ended.count(trial) > 0) continue;
      if (random.UniformInt(9) == 0) {
        constexpr TrialState kStates[] = {TrialState::kComplete, TrialState::kPruned, TrialState::kFailed};
        const TrialState state = kStates[random.UniformInt(3)];
        naive.ended[trial] = state;
        stopper->Finish(trial, state, 0.0);
        continue;
      }
      const int64_t at = ++step[trial];
      // Values on a coarse grid tie often.
      const double value = random.UniformInt(12) == 0 ? std::nan("") : std::floor(8.0 * random.Uniform()) / 8.0;
      naive.curves[trial][at] = value;
      stopper->Report(trial, at, value);
      const bool stop = stopper->Decide(trial, at).verdict == Verdict::kStop;
      ASSERT_EQ(stop, naive.PercentileStops(rule, trial, at)) << "trial " << trial << " step " << at;
      stops += stop ? 1 : 0;
    }
    // A restart: each trial by itself, then asked about all that are open.
    const std::unique_ptr<Stopper> rebuilt = CreateStopper(spec);
    for (const auto& [trial, curve] : naive.curves) {
      for (const auto& [at, value] : curve) rebuilt->Report(trial, at, value);
    }
    for (const auto& [trial, state] : naive.ended) rebuilt->Finish(trial, state, 0.0);
    for (const auto& [trial, curve] : naive.curves) {
      for (const auto& [at, value] : curve) ASSERT_EQ(rebuilt->Decide(trial, at), stopper->Decide(trial, at));
    }
  }
  EXPECT_GT(stops, 100);
}

TEST(PercentileStopperTest, MaximizedMetricsAndEqualValues) {
  StudySpec spec = Spec(MedianStopping{.warmup = 0, .min_trials = 3, .interval = 1, .running_mean = false});
  spec.metric.goal = Goal::kMaximize;
  const std::unique_ptr<Stopper> stopper = CreateStopper(spec);
  for (int64_t trial = 1; trial <= 3; ++trial) {
    stopper->Report(trial, 5, 0.1 * static_cast<double>(trial));
    stopper->Finish(trial, TrialState::kComplete, 0.9);
  }
  stopper->Report(4, 5, 0.2);
  EXPECT_EQ(stopper->Decide(4, 5).verdict, Verdict::kContinue);  // As good as the median.
  stopper->Report(5, 5, 0.19);
  const Decision decision = stopper->Decide(5, 5);
  EXPECT_EQ(decision.verdict, Verdict::kStop);
  EXPECT_EQ(decision.reason, "best value 0.19 up to step 5 is worse than the median, 0.2, of 3 trials");
  stopper->Report(6, 4, 0.01);
  EXPECT_EQ(stopper->Decide(6, 4).verdict, Verdict::kContinue);  // Nobody reported at 4.
}

// Of many settings with as many different values, the rule lets the share through that it names, not ever fewer.
TEST(PercentileStopperTest, AQuarterIsAQuarterHoweverLongTheStudy) {
  base::RandomStream random(3, "test/quarter");
  const std::unique_ptr<Stopper> stopper = CreateStopper(Spec(PercentileStopping{.percentile = 25.0}));
  int64_t complete = 0;
  constexpr int64_t kTrials = 2000;
  for (int64_t trial = 1; trial <= kTrials; ++trial) {
    const double loss = random.Uniform();
    TrialState end = TrialState::kComplete;
    for (int64_t step = 1; step < 27 && end == TrialState::kComplete; ++step) {
      stopper->Report(trial, step, loss);
      if (stopper->Decide(trial, step).verdict == Verdict::kStop) end = TrialState::kPruned;
    }
    complete += end == TrialState::kComplete;
    stopper->Finish(trial, end, loss);
  }
  EXPECT_NEAR(static_cast<double>(complete) / kTrials, 0.25, 0.03);
}

TEST(CreateStopperTest, NothingIsStoppedBeforeTheResourcesMin) {
  StudySpec spec = Spec(MedianStopping{.min_trials = 1});
  spec.resource->min = 3;
  const std::unique_ptr<Stopper> stopper = CreateStopper(spec);
  for (int64_t step = 1; step <= 3; ++step) stopper->Report(1, step, 0.5);
  stopper->Finish(1, TrialState::kComplete, 0.5);
  for (int64_t step = 1; step <= 3; ++step) {
    stopper->Report(2, step, 0.9);
    EXPECT_EQ(stopper->Decide(2, step).verdict, step < 3 ? Verdict::kContinue : Verdict::kStop) << step;
  }
}

// --- Rungs of asha ---

TEST(AshaStopperTest, AgreesWithCountingAnew) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream random(seed, "test/asha");
    const int32_t eta = 2 + static_cast<int32_t>(seed % 3);
    const std::unique_ptr<Stopper> stopper = CreateStopper(Spec(std::nullopt, AshaStop(eta)));
    std::vector<int64_t> rungs;  // Of 27.
    for (int64_t step = 27 / eta; step >= 1; step /= eta) rungs.push_back(step);
    // round(27 / 2), round(27 / 4), …; round(27 / 4), round(27 / 16).
    if (eta == 2) rungs = {14, 7, 3, 2};
    if (eta == 4) rungs = {7, 2};
    std::map<int64_t, std::map<int64_t, double>> at_rung;  // Rung -> trial -> loss.
    std::map<int64_t, int64_t> step;
    std::set<int64_t> stopped;
    for (int i = 0; i < 600; ++i) {
      const int64_t trial = 1 + static_cast<int64_t>(random.UniformInt(60));
      if (stopped.count(trial) > 0) continue;
      const int64_t at = step[trial] += 1 + static_cast<int64_t>(random.UniformInt(3));
      if (at > 27) continue;
      const double value = random.UniformInt(15) == 0 ? std::nan("") : std::floor(10.0 * random.Uniform());
      stopper->Report(trial, at, value);
      bool expected = false;
      for (const int64_t rung : rungs) {
        auto& there = at_rung[rung];
        if (at < rung || !there.emplace(trial, std::isfinite(value) ? value : kNever).second) continue;
        int64_t rank = 1;
        for (const auto& [other, loss] : there) {
          rank += std::pair(loss, other) < std::pair(there.at(trial), trial) ? 1 : 0;
        }
        const auto best = static_cast<int64_t>(there.size()) / eta;
        if (std::all_of(there.begin(), there.end(), [](const auto& entry) { return entry.second == kNever; })) continue;
        if (!std::isfinite(value)) expected = true;
        if (rank > std::max<int64_t>(1, best)) expected = true;
      }
      ASSERT_EQ(stopper->Decide(trial, at).verdict == Verdict::kStop, expected) << "trial " << trial << " at " << at;
      if (expected) stopped.insert(trial);
      if (expected) stopper->Finish(trial, TrialState::kPruned, value);
    }
    EXPECT_GT(stopped.size(), 10u);
  }
}

TEST(AshaStopperTest, TheFirstGoOnOnlyWhileTheyAreBest) {
  const std::unique_ptr<Stopper> strict = CreateStopper(Spec(std::nullopt, AshaStop()));
  const auto decide = [](Stopper& stopper, int64_t trial, double value) {
    stopper.Report(trial, 1, value);
    return stopper.Decide(trial, 1).verdict;
  };
  EXPECT_EQ(decide(*strict, 1, 5.0), Verdict::kContinue);
  EXPECT_EQ(decide(*strict, 2, 6.0), Verdict::kStop);
  EXPECT_EQ(decide(*strict, 3, 4.0), Verdict::kContinue);
  EXPECT_THAT(strict->Decide(2, 1).reason, HasSubstr("rank 3 of 3 at rung 1, of which the best 1 go on"));
}

// A metric that is not defined at the first report, as the area under a curve before any positive was seen.
TEST(CreateStopperTest, ValuesThatNobodyHasYetStopNobody) {
  const StoppingRule median = MedianStopping{.warmup = 0, .min_trials = 2, .interval = 1, .running_mean = false};
  const StoppingRule percentile = PercentileStopping{.warmup = 0, .min_trials = 2, .interval = 1};
  for (const StudySpec& spec :
       {Spec(median), Spec(percentile), Spec(CurveStopping{.min_trials = 2}), Spec(std::nullopt, AshaStop())}) {
    const std::unique_ptr<Stopper> stopper = CreateStopper(spec);
    for (int64_t trial = 1; trial <= 9; ++trial) {
      for (const double value : {std::nan(""), kNever, -kNever}) {
        stopper->Report(trial, 1, value);
        EXPECT_EQ(stopper->Decide(trial, 1), Decision{});
      }
      stopper->Report(trial, 2, 0.5);
      EXPECT_EQ(stopper->Decide(trial, 2), Decision{});
      if (spec.stopping) stopper->Finish(trial, TrialState::kComplete, 0.5);
    }
  }
}

TEST(CreateStopperTest, ATrialWithoutAValueIsStoppedOnceOthersHaveOne) {
  const StoppingRule rule = MedianStopping{.warmup = 0, .min_trials = 1, .interval = 1, .running_mean = false};
  for (const StudySpec& spec : {Spec(rule), Spec(std::nullopt, AshaStop())}) {
    const std::unique_ptr<Stopper> stopper = CreateStopper(spec);
    stopper->Report(1, 1, 0.5);
    if (spec.stopping) stopper->Finish(1, TrialState::kComplete, 0.5);
    stopper->Report(2, 1, std::nan(""));
    EXPECT_EQ(stopper->Decide(2, 1).verdict, Verdict::kStop);
    EXPECT_THAT(stopper->Decide(2, 1).reason, HasSubstr("no finite value"));
  }
}

TEST(AshaStopperTest, ALaterAttemptReplacesWhatAnEarlierOneReported) {
  const std::unique_ptr<Stopper> stopper = CreateStopper(Spec(std::nullopt, AshaStop()));
  stopper->Report(1, 1, 5.0);
  stopper->Report(2, 1, 4.0);
  EXPECT_EQ(stopper->Decide(1, 1).verdict, Verdict::kStop);
  stopper->Report(1, 1, 3.0);
  EXPECT_EQ(stopper->Decide(1, 1).verdict, Verdict::kContinue);
  EXPECT_THAT(stopper->Decide(2, 1).reason, HasSubstr("rank 2 of 2"));
}

TEST(CreateStopperTest, ATrialThatHasHadAllItsTrainingIsNotStopped) {
  const StoppingRule rule = MedianStopping{.warmup = 0, .min_trials = 1, .interval = 1, .running_mean = false};
  const std::unique_ptr<Stopper> stopper = CreateStopper(Spec(rule, AshaStop()));
  for (const int64_t step : {26, 27}) stopper->Report(1, step, 0.1);
  stopper->Finish(1, TrialState::kComplete, 0.1);
  for (const int64_t step : {26, 27}) stopper->Report(2, step, 0.9);
  EXPECT_EQ(stopper->Decide(2, 26).verdict, Verdict::kStop);
  EXPECT_EQ(stopper->Decide(2, 27).verdict, Verdict::kContinue);
}

TEST(CreateStopperTest, TwoRulesTogether) {
  const std::unique_ptr<Stopper> stopper = CreateStopper(Spec(MedianStopping{}, AshaStop()));
  stopper->Report(1, 3, 0.5);
  stopper->Report(2, 3, 0.6);
  EXPECT_EQ(stopper->Decide(2, 3).verdict, Verdict::kStop);  // By its rung.
  stopper->Finish(2, TrialState::kPruned, std::nullopt);
}

}  // namespace
}  // namespace luthier::stopping
