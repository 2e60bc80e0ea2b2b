#include "server/coordinator/writer/refusal_delay.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <vector>

namespace luthier::coordinator {
namespace {

// So many seconds in which every millisecond so many are taken.
void Take(RefusalDelay& delay, absl::Duration& now, int seconds, int taken) {
  for (int ms = 0; ms < 1000 * seconds; ++ms) {
    now += absl::Milliseconds(1);
    for (int i = 0; i < taken; ++i) delay.Taken(now);
  }
}

TEST(RefusalDelay, ASingleCallerReturnsSoon) {
  RefusalDelay delay;
  absl::Duration now = absl::Seconds(100);
  EXPECT_EQ(delay.Refused(now), RefusalDelay::kLeast);
  Take(delay, now, 1, 10);
  EXPECT_EQ(delay.Refused(now), RefusalDelay::kLeast);
}

TEST(RefusalDelay, RefusedCallersReturnOneAfterTheOther) {
  for (const int taken : {1, 4}) {
    RefusalDelay delay;
    absl::Duration now = absl::Seconds(100);
    Take(delay, now, 10, taken);
    const absl::Duration first = delay.Refused(now);
    for (int i = 0; i < 50; ++i) (void)delay.Refused(now);
    // Of a thousand a second, one for sixteen.
    EXPECT_NEAR(absl::ToDoubleSeconds(delay.Refused(now) - first), 51 * 0.016 / taken, 0.01);
  }
}

TEST(RefusalDelay, TheDelayIsBoundedWhenNothingIsAccepted) {
  RefusalDelay delay;
  const absl::Duration now = absl::Seconds(100);
  for (int i = 0; i < 100'000; ++i) EXPECT_LE(delay.Refused(now), RefusalDelay::kMost);
  EXPECT_EQ(delay.Refused(now), RefusalDelay::kMost);
  EXPECT_EQ(delay.Refused(now + absl::Minutes(1)), RefusalDelay::kLeast);
}

// Two thousand who return when they are told, to a queue that takes four of them a millisecond and whom it has taken
// come again at once.
TEST(RefusalDelay, FewOfAFleetAreRefused) {
  RefusalDelay delay;
  absl::Duration now = absl::Seconds(100);
  std::priority_queue<absl::Duration, std::vector<absl::Duration>, std::greater<>> returns;
  for (int i = 0; i < 2000; ++i) returns.push(now);
  int taken = 0, refused = 0;
  for (int ms = 0; ms < 20'000; ++ms) {
    now += absl::Milliseconds(1);
    int room = 4;
    int again = 0;
    for (; !returns.empty() && returns.top() <= now; returns.pop()) {
      if (room > 0) {
        --room;
        ++again;
        delay.Taken(now);
        taken += ms >= 10'000 ? 1 : 0;
      } else {
        returns.push(now + delay.Refused(now));
        refused += ms >= 10'000 ? 1 : 0;
      }
    }
    for (int i = 0; i < again; ++i) returns.push(now + absl::Milliseconds(1));
  }
  EXPECT_GT(taken, 39'000) << "the queue is always full";
  EXPECT_LT(refused, taken / 8);
}

}  // namespace
}  // namespace luthier::coordinator
