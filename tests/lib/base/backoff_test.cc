#include "lib/base/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "lib/base/error.h"

namespace luthier::base {
namespace {

absl::Status Starting(std::optional<absl::Duration> delay = std::nullopt) {
  ErrorDetail detail;
  detail.reason = reason::kStarting;
  detail.retry_delay = delay;
  return MakeError(absl::StatusCode::kUnavailable, "not yet", detail);
}

Backoff NewBackoff(uint64_t seed) {
  return Backoff(RandomStream(seed, "backoff_test"));
}

TEST(Backoff, WaitsAreJitteredAndBounded) {
  double sum_of_late = 0;
  int late = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Backoff backoff = NewBackoff(seed);
    absl::Duration ceiling = absl::Milliseconds(100);
    for (int k = 0; k < 40; ++k) {
      const absl::Duration wait = backoff.Next(Starting());
      EXPECT_GT(wait, absl::ZeroDuration());
      EXPECT_LE(wait, ceiling);
      if (k >= 8) {
        sum_of_late += absl::ToDoubleSeconds(wait);
        ++late;
      }
      ceiling = std::min(ceiling * 2, absl::Seconds(10));
    }
  }
  // Uniform on (0, 10 s): mean 5, standard deviation 2.89, of the mean of 6400 waits 0.036.
  EXPECT_NEAR(sum_of_late / late, 5.0, 0.2);
}

TEST(Backoff, EqualStreamsWaitAlike) {
  Backoff one = NewBackoff(1), same = NewBackoff(1), other = NewBackoff(2);
  const absl::Duration wait = one.Next(Starting());
  EXPECT_EQ(wait, same.Next(Starting()));
  EXPECT_NE(wait, other.Next(Starting()));
}

TEST(Backoff, StartsAnewAfterASuccess) {
  Backoff backoff = NewBackoff(1);
  for (int k = 0; k < 20; ++k) backoff.Next(Starting());
  backoff.Reset();
  EXPECT_LE(backoff.Next(Starting()), absl::Milliseconds(100));
}

TEST(Backoff, WaitsAtMostASecondForAServerThatIsNotReached) {
  Backoff backoff = NewBackoff(1);
  absl::Duration longest;
  for (int k = 0; k < 200; ++k) longest = std::max(longest, backoff.Next(absl::UnavailableError("no server")));
  EXPECT_LE(longest, absl::Seconds(1));
  EXPECT_GT(longest, absl::Milliseconds(900));
  // One that was reached and did not answer in time may be overloaded.
  longest = absl::ZeroDuration();
  for (int k = 0; k < 200; ++k) longest = std::max(longest, backoff.Next(absl::DeadlineExceededError("slow")));
  EXPECT_GT(longest, absl::Seconds(9));
}

TEST(Backoff, HonoursTheServersDelayUpToAMinute) {
  Backoff backoff = NewBackoff(1);
  EXPECT_EQ(backoff.Next(Starting(absl::Seconds(30))), absl::Seconds(30));
  for (const absl::Duration delay : {absl::Seconds(61), absl::Hours(1000), absl::InfiniteDuration()}) {
    EXPECT_EQ(backoff.Next(Starting(delay)), absl::Minutes(1)) << delay;
  }
  EXPECT_GT(backoff.Next(Starting(-absl::InfiniteDuration())), absl::ZeroDuration());
}

}  // namespace
}  // namespace luthier::base
