#include "lib/simulate/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "lib/study/rung_schedule.h"
#include "tests/lib/study/builders.h"

namespace luthier::simulate {
namespace {

using namespace study;

TrainingOptions TrainingWith(AlgorithmSpec algorithm, int64_t trials, uint64_t seed = 0, int64_t workers = 8) {
  TrainingOptions options;
  options.problem = CurveProblem(81);
  options.algorithm = std::move(algorithm);
  options.resource = Resource{.min = 3, .max = 81, .unit = "epochs"};
  options.trials = trials;
  options.workers = workers;
  options.seed = seed;
  return options;
}

TrainingSummary Simulated(const TrainingOptions& options) {
  const absl::StatusOr<TrainingSummary> summary = SimulateTraining(options);
  EXPECT_TRUE(summary.ok()) << summary.status();
  return summary.ok() ? *summary : TrainingSummary();
}

TEST(SimulateTrainingTest, WithoutStoppingEverySettingGetsAllItsTraining) {
  const TrainingSummary summary = Simulated(TrainingWith(RandomOptions{}, 50));
  EXPECT_EQ(summary.settings, 50);
  EXPECT_EQ(summary.complete, 50);
  EXPECT_EQ(summary.training, 50.0 * 81.0);
  EXPECT_EQ(summary.idle, 0.0);
}

TEST(SimulateTrainingTest, ABracketTrainsAsMuchAsItsTableSays) {
  TrainingOptions options = TrainingWith(SuccessiveHalvingOptions{}, 81);
  options.resource.min = 1;
  StudySpec spec;
  spec.algorithm = options.algorithm;
  spec.resource = options.resource;
  const study::Bracket bracket = study::BracketsOf(spec).front();
  TrainingSummary summary = Simulated(options);
  EXPECT_EQ(summary.training, study::TrainingOf(bracket, true));
  EXPECT_EQ(summary.promotions, 27 + 9 + 3 + 1);
  EXPECT_EQ(summary.paused, 80);
  options.checkpoints = false;
  EXPECT_EQ(Simulated(options).training, study::TrainingOf(bracket, false));
}

TEST(SimulateTrainingTest, ReportsInStridesStillReachTargets) {
  TrainingOptions options = TrainingWith(AshaOptions{}, 60);
  options.report_every = 5;
  const TrainingSummary summary = Simulated(options);
  EXPECT_GT(summary.complete, 0);
  EXPECT_EQ(summary.settings, 60);
}

TEST(SimulateTrainingTest, TrainingThatIsOverByItselfIsComplete) {
  TrainingOptions options = TrainingWith(RandomOptions{}, 20);
  options.problem.length = [](const Parameters& setting) {
    return std::get<double>(setting.at("width")) < 0.5 ? int64_t{8} : int64_t{1000};  // Beyond the whole: the whole.
  };
  TrainingSummary summary = Simulated(options);
  EXPECT_EQ(summary.complete, 20);
  const double short_ones = (20.0 * 81.0 - summary.training) / (81.0 - 8.0);
  EXPECT_EQ(short_ones, std::round(short_ones));
  EXPECT_GT(short_ones, 3.0);
  // Where trainings are short, those that are done early keep none of the others from all of theirs.
  options.algorithm = AshaOptions{};
  options.trials = 60;
  options.problem.value = [value = options.problem.value](const Parameters& setting, int64_t step) {
    return value(setting, step) + (std::get<double>(setting.at("width")) < 0.5 ? 100.0 : 0.0);
  };
  summary = Simulated(options);
  EXPECT_LT(summary.best.value_or(100.0), 10.0);
}

TEST(SimulateTrainingTest, TheSameOptionsGiveTheSameRun) {
  const TrainingOptions options = TrainingWith(AshaOptions{.sampler = BoOptions{.initial_points = 5}}, 30, 3);
  EXPECT_EQ(Simulated(options).training, Simulated(options).training);
  EXPECT_EQ(Simulated(options).best, Simulated(options).best);
}

TEST(SimulateTrainingTest, RefusesWhatCannotRun) {
  TrainingOptions options = TrainingWith(AshaOptions{}, 60);
  options.workers = 0;
  options.report_every = 0;
  const absl::Status status = SimulateTraining(options).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("workers: 0"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("report_every: 0"));
}

TEST(SimulateTrainingTest, CurvesOfATestFunctionEndInItsValue) {
  const absl::StatusOr<Problem> branin = TestProblem("branin");
  ASSERT_TRUE(branin.ok());
  const TrainingProblem problem = WithCurves(*branin, 81);
  const Parameters setting = {{"x1", 2.0}, {"x2", 3.0}};
  EXPECT_EQ(problem.value(setting, 81), branin->evaluate(setting));
  for (int64_t step = 1; step < 81; ++step) EXPECT_GT(problem.value(setting, step), problem.value(setting, step + 1));
  TrainingOptions options = TrainingWith(AshaOptions{}, 60);
  options.problem = problem;
  EXPECT_GT(Simulated(options).complete, 0);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

// The same settings with and without early stopping, ten seeds: how much less training, and how much worse the winner.
struct Saving {
  double median_ratio;
  double worst_loss;  // Largest of (with - without) / without.
};
Saving Compare(const AlgorithmSpec& algorithm, const std::optional<StoppingRule>& rule, int64_t trials) {
  std::vector<double> ratios;
  double worst = 0.0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TrainingOptions options = TrainingWith(algorithm, trials, seed);
    options.stopping = rule;
    const TrainingSummary with = Simulated(options);
    const TrainingSummary without = Simulated(TrainingWith(RandomOptions{}, trials, seed));
    EXPECT_TRUE(with.best && without.best);
    if (!with.best || !without.best) return {0.0, 1.0};
    ratios.push_back(without.training / with.training);
    worst = std::max(worst, (*with.best - *without.best) / *without.best);
  }
  const Saving saving = {Median(ratios), worst};
  std::printf("%s %d: %.2f times less training, winner at most %.2f%% worse\n", AlgorithmName(algorithm).c_str(),
              rule ? static_cast<int>(rule->index()) : -1, saving.median_ratio, 100.0 * saving.worst_loss);
  return saving;
}

TEST(EarlyStoppingTest, ThreeTimesLessTrainingForTheSameWinner) {
  AshaOptions stop;
  stop.variant = AshaVariant::kStop;
  const AlgorithmSpec algorithms[] = {AshaOptions{}, stop, HyperbandOptions{}, SuccessiveHalvingOptions{}};
  for (const AlgorithmSpec& algorithm : algorithms) {
    const Saving saving = Compare(algorithm, std::nullopt, 162);
    EXPECT_GE(saving.median_ratio, 3.0) << AlgorithmName(algorithm);
    EXPECT_LE(saving.worst_loss, 0.01) << AlgorithmName(algorithm);
  }
}

// At the first step the curves say nothing yet. Three times as many settings make more than up for it.
TEST(EarlyStoppingTest, WhereEarlyResultsMisleadMoreSettingsHelp) {
  std::vector<double> ratios;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TrainingOptions options = TrainingWith(AshaOptions{}, 3 * 162, seed);
    options.resource.min = 1;
    const TrainingSummary with = Simulated(options);
    const TrainingSummary without = Simulated(TrainingWith(RandomOptions{}, 162, seed));
    ASSERT_TRUE(with.best && without.best);
    EXPECT_LE(*with.best, 1.01 * *without.best) << seed;
    ratios.push_back(without.training / with.training);
  }
  EXPECT_GE(Median(ratios), 3.0);
}

TEST(EarlyStoppingTest, RulesBesideRandomSearchLoseNoWinner) {
  const StoppingRule rules[] = {MedianStopping{}, MedianStopping{.running_mean = true},
                                PercentileStopping{.percentile = 25.0}, CurveStopping{}};
  for (const StoppingRule& rule : rules) {
    const Saving saving = Compare(RandomOptions{}, rule, 162);
    EXPECT_GE(saving.median_ratio, 1.5);
    EXPECT_LE(saving.worst_loss, 0.01);
  }
}

}  // namespace
}  // namespace luthier::simulate
