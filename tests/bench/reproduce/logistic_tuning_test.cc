#include "bench/reproduce/logistic_tuning.h"

#include <cmath>

#include "bench/reproduce/problems.h"
#include "gtest/gtest.h"

namespace luthier::reproduce {
namespace {

TEST(LogisticTuning, WithoutTrainingEveryClassIsAsLikely) {
  const LogisticTuning task(1);
  EXPECT_NEAR(task.TestLoss(0.1, 0.01, 0), std::log(10.0), 1e-12);
  EXPECT_NEAR(task.TestLoss(0.1, 0.0, 3), std::log(10.0), 1e-12);
}

TEST(LogisticTuning, LearnsAndCanBeSpoiltFromBothSides) {
  const LogisticTuning task(1);
  const double good = task.TestLoss(1e-3, 0.002, 15);
  EXPECT_LT(good, 1.3);
  EXPECT_LT(good, task.TestLoss(1e-3, 1e-6, 15));  // Too slow.
  EXPECT_LT(good, task.TestLoss(0.9, 0.05, 15));   // Shrunk to nothing, in large steps.
  EXPECT_LT(good, task.TestLoss(1e-7, 0.05, 15));  // Overfitted.
}

TEST(LogisticTuning, RepeatsToTheLastBitAndDependsOnTheSeed) {
  EXPECT_EQ(LogisticTuning(1).TestLoss(1e-2, 0.01, 2), LogisticTuning(1).TestLoss(1e-2, 0.01, 2));
  EXPECT_NE(LogisticTuning(1).TestLoss(1e-2, 0.01, 2), LogisticTuning(2).TestLoss(1e-2, 0.01, 2));
}

TEST(LogisticTuning, AnOverflowIsAnInfiniteLoss) {
  EXPECT_EQ(LogisticTuning(1).TestLoss(0.0, 1e308, 2), HUGE_VAL);
}

TEST(LogisticTuning, ScalesDifferNotTheTask) {
  const study::Parameters setting = {{"l2", 0.01}, {"step", 0.003}, {"passes", 4.0}};
  EXPECT_EQ(MakeProblem("logistic", 0)->base.evaluate(setting), MakeProblem("logistic_log", 0)->base.evaluate(setting));
}

}  // namespace
}  // namespace luthier::reproduce
