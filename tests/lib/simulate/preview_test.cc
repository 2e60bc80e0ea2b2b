#include "lib/simulate/preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/search/registry.h"
#include "lib/simulate/training.h"
#include "tests/lib/study/builders.h"

namespace luthier::simulate {
namespace {

using namespace study;

StudySpec Spec(AlgorithmSpec algorithm, int64_t trials) {
  StudySpec spec;
  spec.space = CurveProblem(81).space;
  spec.metric.name = "value";
  spec.algorithm = std::move(algorithm);
  spec.resource = Resource{.min = 1, .max = 81, .unit = "epochs"};
  spec.budget.max_trials = trials;
  EXPECT_TRUE(search::Validate(spec).ok()) << search::Validate(spec);
  return spec;
}

TEST(PreviewTest, HyperbandsTableRoundAfterRound) {
  // One round is 143 settings; the next begins with 81, then 34, then 5 of 15.
  const Preview preview = PreviewOf(Spec(HyperbandOptions{}, 143 + 81 + 34 + 5), 4);
  ASSERT_EQ(preview.brackets.size(), 6u);
  EXPECT_EQ(preview.brackets[0].times, 2);
  EXPECT_EQ(preview.brackets[1].times, 2);
  EXPECT_EQ(preview.brackets[2].times, 1);
  EXPECT_EQ(preview.brackets[4].rungs.size(), 1u);
  EXPECT_EQ(preview.brackets[4].rungs[0].settings, 5);
  EXPECT_EQ(preview.brackets[5].rungs[0].settings, 5);  // Cut short.
  EXPECT_EQ(preview.brackets[5].rungs[2].settings, 1);
  EXPECT_EQ(preview.training_without, 263.0 * 81.0);
}

TEST(PreviewTest, AgreesWithWhatASimulationTrains) {
  const AlgorithmSpec algorithms[] = {SuccessiveHalvingOptions{}, HyperbandOptions{}, RandomOptions{}};
  for (const AlgorithmSpec& algorithm : algorithms) {
    for (const int64_t trials : {81, 200, 300}) {
      if (AlgorithmName(algorithm) == "successive_halving" && trials == 300) continue;
      SCOPED_TRACE(testing::Message() << AlgorithmName(algorithm) << " " << trials);
      TrainingOptions options;
      options.problem = CurveProblem(81);
      options.algorithm = algorithm;
      options.resource = Resource{.min = 1, .max = 81, .unit = ""};
      options.trials = trials;
      options.workers = 6;
      const absl::StatusOr<TrainingSummary> summary = SimulateTraining(options);
      ASSERT_TRUE(summary.ok()) << summary.status();
      const Preview preview = PreviewOf(Spec(algorithm, trials), 6);
      EXPECT_EQ(preview.training, summary->training);
      // Units take half to one and a half times as long.
      EXPECT_GE(summary->elapsed, 0.75 * preview.time_at_least);
      EXPECT_LE(summary->elapsed, 1.5 * preview.time_at_most);
      options.checkpoints = false;
      EXPECT_EQ(preview.training_from_scratch, SimulateTraining(options)->training);
    }
  }
}

TEST(PreviewTest, StagesComeBeforeWhatTheirBaseDoes) {
  std::vector<ParameterSpec> switches;
  for (int i = 0; i < 20; ++i) switches.push_back(Bool("b" + std::to_string(i)));
  TrainingOptions options;
  options.problem.name = "switches";
  options.problem.space = Space(switches);
  options.problem.value = [](const Parameters& p, int64_t step) {
    double value = 1.0 / static_cast<double>(step);
    for (const auto& [name, on] : p) value += std::get<bool>(on) ? 0.1 * static_cast<double>(name.size()) : 0.0;
    return value;
  };
  options.algorithm = HarmonicaOptions{.samples = 50, .stages = 2, .stage_resource = 3, .base = HyperbandOptions{}};
  options.resource = Resource{.min = 1, .max = 9, .unit = ""};
  options.trials = 130;
  const absl::StatusOr<TrainingSummary> summary = SimulateTraining(options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  StudySpec spec = Spec(RandomOptions{}, 130);
  spec.space = options.problem.space;
  spec.algorithm = options.algorithm;
  spec.resource = options.resource;
  const Preview preview = PreviewOf(spec, 1);
  EXPECT_EQ(preview.algorithm, "harmonica");
  EXPECT_EQ(preview.settings, 130);
  ASSERT_GE(preview.brackets.size(), 3u);
  EXPECT_EQ(preview.brackets[0].times, 2);
  EXPECT_EQ(preview.brackets[0].rungs[0].step, 3);
  EXPECT_EQ(preview.brackets[0].rungs[0].settings, 50);
  EXPECT_EQ(preview.brackets[1].rungs[0].settings, 9);
  EXPECT_EQ(preview.training, summary->training);
  EXPECT_EQ(preview.time_at_least, preview.training);
  // Without stages, and where the budget ends within one.
  spec.algorithm = HarmonicaOptions{.samples = 100, .stages = 2};
  const Preview cut = PreviewOf(spec, 4);
  ASSERT_EQ(cut.brackets.size(), 2u);
  EXPECT_EQ(cut.brackets[1].rungs[0].settings, 30);
  EXPECT_EQ(cut.training, 130.0 * 9.0);
  spec.space = Space({Bool("a")});
  EXPECT_EQ(PreviewOf(spec, 4).algorithm, "random");
  EXPECT_EQ(PreviewOf(spec, 4).training, 130.0 * 9.0);
}

TEST(PreviewTest, AshaTrainsNoMoreThanItsRungsHold) {
  const Preview preview = PreviewOf(Spec(AshaOptions{}, 300), 10);
  TrainingOptions options;
  options.problem = CurveProblem(81);
  options.algorithm = AshaOptions{};
  options.resource = Resource{.min = 1, .max = 81, .unit = ""};
  options.trials = 300;
  options.workers = 10;
  const absl::StatusOr<TrainingSummary> summary = SimulateTraining(options);
  ASSERT_TRUE(summary.ok());
  EXPECT_LE(summary->training, preview.training);
  EXPECT_GE(summary->training, 0.9 * preview.training);
  EXPECT_TRUE(preview.at_most);
  EXPECT_LE(summary->elapsed, 1.5 * preview.time_at_most);
}

TEST(PreviewTest, AlgorithmsWithoutRungs) {
  StudySpec spec = Spec(RandomOptions{}, 50);
  spec.resource.reset();
  spec.budget.max_parallel = 4;
  const Preview preview = PreviewOf(spec, 100);
  EXPECT_EQ(preview.workers, 4);
  EXPECT_EQ(preview.unit, "trials");
  EXPECT_EQ(preview.training, 50.0);
  EXPECT_EQ(preview.time_at_least, 12.5);
  EXPECT_EQ(preview.time_at_most, 13.0);
  EXPECT_FALSE(preview.at_most);
  spec.resource = Resource{.min = 1, .max = 10, .unit = ""};
  spec.stopping = MedianStopping{};
  EXPECT_EQ(PreviewOf(spec, 4).training, 500.0);
  EXPECT_TRUE(PreviewOf(spec, 4).at_most);
}

}  // namespace
}  // namespace luthier::simulate
