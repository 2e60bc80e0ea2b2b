#include "lib/simulate/preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/simulate/training.h"
#include "lib/suggest/registry.h"
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
  EXPECT_TRUE(suggest::Validate(spec).ok()) << suggest::Validate(spec);
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
