#include "lib/stopping/stopper.h"

#include <gtest/gtest.h>

namespace luthier::stopping {
namespace {

TEST(AtTargetTest, PausesOnlyWhereATargetBelowTheWholeIsReached) {
  const study::Resource resource{.min = 1, .max = 81, .unit = "epochs"};
  EXPECT_EQ(AtTarget(resource, 0, 50).verdict, Verdict::kContinue);
  EXPECT_EQ(AtTarget(resource, 9, 8).verdict, Verdict::kContinue);
  EXPECT_EQ(AtTarget(resource, 9, 9), (Decision{Verdict::kPause, "reached 9 epochs"}));
  EXPECT_EQ(AtTarget(resource, 9, 12).verdict, Verdict::kPause);  // It reports every fourth step.
  EXPECT_EQ(AtTarget(resource, 81, 81).verdict, Verdict::kContinue);
}

}  // namespace
}  // namespace luthier::stopping
