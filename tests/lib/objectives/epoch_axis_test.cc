#include "lib/objectives/epoch_axis.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace luthier::objectives {
namespace {

using Looks = std::vector<std::tuple<int64_t, bool, bool, bool>>;  // Step; whether to report, checkpoint and pause.

// Of a training whose iterations end after `passes`.
Looks Walk(EpochAxis axis, const std::vector<double>& passes) {
  Looks looks;
  for (const double now : passes) {
    if (now < static_cast<double>(axis.goal())) continue;
    const EpochAxis::Point at = axis.At(now);
    looks.emplace_back(at.step, at.report, at.checkpoint, at.pause);
    axis.MoveOn(at);
    EXPECT_EQ(axis.done(), at.passes);
    if (at.pause) break;
  }
  return looks;
}

TEST(EpochAxisTest, TheStartIsStepZeroWhateverItCost) {
  EXPECT_EQ(Walk(EpochAxis(1, 2, 0), {2.0, 2.5, 3.0, 4.0}),
            (Looks{{0, true, false, false}, {3, true, false, false}, {4, true, true, false}}));
}

TEST(EpochAxisTest, FractionsAddUpToPointsAtWholePasses) {
  EXPECT_EQ(Walk(EpochAxis(2, 100, 0), {0.0, 0.6, 1.2, 1.8, 2.4, 3.9, 4.0}), (Looks{{0, true, false, false},
                                                                                    {0, false, false, false},
                                                                                    {2, true, false, false},
                                                                                    {2, false, false, false},
                                                                                    {4, true, false, false}}));
}

TEST(EpochAxisTest, APointIsNamedByTheLastMultipleCrossed) {
  EXPECT_EQ(
      Walk(EpochAxis(5, 10, 0), {1.0, 12.5, 14.0, 15.0}),
      (Looks{{0, true, false, false}, {10, true, true, false}, {10, false, false, false}, {15, true, false, false}}));
}

TEST(EpochAxisTest, ThePauseIsTheFirstPointNotBelowItsTarget) {
  EXPECT_EQ(Walk(EpochAxis(5, 10, 3), {1.0, 2.0, 4.0, 5.0}),
            (Looks{{0, true, false, false}, {0, false, false, false}, {3, false, false, true}}));
  EXPECT_EQ(Walk(EpochAxis(5, 10, 4), {1.0, 6.0}), (Looks{{0, true, false, false}, {5, true, false, true}}));
  EXPECT_EQ(Walk(EpochAxis(1, 10, 4), {1.0, 6.0}), (Looks{{0, true, false, false}, {6, true, false, true}}));
}

TEST(EpochAxisTest, TheResultIsNotBeyondTheTarget) {
  EpochAxis axis(1, 10, 9);
  axis.Resume(8);
  EXPECT_EQ(axis.done(), 7);
  EXPECT_EQ(axis.LastStep(8.5), 8);
  EXPECT_EQ(axis.LastStep(30.0), 9);
  EXPECT_EQ(axis.LastStep(6.5), 7);
  EXPECT_EQ(EpochAxis(1, 10, 0).LastStep(30.9), 30);
}

}  // namespace
}  // namespace luthier::objectives
