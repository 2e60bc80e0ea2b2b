#include "server/coordinator/writer/refusal_delay.h"

#include <gtest/gtest.h>

namespace luthier::coordinator {
namespace {

// A second in which every millisecond so many are taken and refused. Returns the last delay.
absl::Duration Second(RefusalDelay& delay, absl::Duration& now, int taken, int refused) {
  absl::Duration last = absl::ZeroDuration();
  for (int ms = 0; ms < 1000; ++ms) {
    now += absl::Milliseconds(1);
    for (int i = 0; i < taken; ++i) delay.Taken(now);
    for (int i = 0; i < refused; ++i) last = delay.Refused(now);
  }
  return last;
}

TEST(RefusalDelay, FewRefusalsAreShort) {
  RefusalDelay delay;
  absl::Duration now = absl::Seconds(100);
  EXPECT_EQ(delay.Refused(now), RefusalDelay::kLeast);
  EXPECT_EQ(Second(delay, now, 20, 1), RefusalDelay::kLeast);
}

TEST(RefusalDelay, ItGrowsWhileMostAreRefusedAndShrinksAfterwards) {
  RefusalDelay delay;
  absl::Duration now = absl::Seconds(100);
  const absl::Duration grown = Second(delay, now, 5, 20);
  EXPECT_GT(grown, absl::Seconds(1));
  EXPECT_EQ(Second(delay, now, 5, 20), RefusalDelay::kMost);
  EXPECT_EQ(Second(delay, now, 20, 1), RefusalDelay::kMost);  // About right.
  const absl::Duration shrunk = Second(delay, now, 100, 1);
  EXPECT_LT(shrunk, RefusalDelay::kMost);
  EXPECT_GT(shrunk, absl::Seconds(1));
  for (int i = 0; i < 10; ++i) Second(delay, now, 100, 1);
  EXPECT_EQ(Second(delay, now, 100, 1), RefusalDelay::kLeast);
}

TEST(RefusalDelay, AfterAPauseItBeginsAnew) {
  RefusalDelay delay;
  absl::Duration now = absl::Seconds(100);
  Second(delay, now, 0, 20);
  now += absl::Seconds(2);
  EXPECT_EQ(delay.Refused(now), RefusalDelay::kLeast);
}

}  // namespace
}  // namespace luthier::coordinator
