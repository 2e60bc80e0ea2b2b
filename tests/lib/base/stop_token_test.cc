#include "lib/base/stop_token.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "tests/lib/base/look_meter.h"

namespace luthier::base {
namespace {

using testing::LookMeter;

TEST(StopTokenTest, EmptyTokensNeverStop) {
  const StopToken token;
  EXPECT_FALSE(token.stop_requested());
  EXPECT_TRUE(token.Poll().ok());
  EXPECT_FALSE(token.WaitFor(absl::Milliseconds(1)));
}

TEST(StopTokenTest, AllTokensOfASourceStopAndNoOthers) {
  const StopSource source, other;
  const StopToken before = source.token();
  const StopToken copy = before;
  const StopSource same = source;
  EXPECT_TRUE(before.Poll().ok());
  EXPECT_FALSE(source.stop_requested());
  source.RequestStop();
  EXPECT_TRUE(source.stop_requested());
  EXPECT_TRUE(same.stop_requested());
  for (const StopToken& token : {before, copy, source.token(), same.token()}) {
    EXPECT_TRUE(token.stop_requested());
    EXPECT_EQ(token.Poll().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(token.Poll(), StoppedError());
  }
  EXPECT_FALSE(StoppedError().message().empty());
  EXPECT_TRUE(other.token().Poll().ok());
}

TEST(StopTokenTest, TokensOutliveTheirSource) {
  std::optional<StopSource> raised(StopSource{}), quiet(StopSource{});
  const StopToken stopped = raised->token(), going_on = quiet->token();
  raised->RequestStop();
  raised.reset();
  quiet.reset();
  EXPECT_TRUE(stopped.stop_requested());
  EXPECT_FALSE(going_on.stop_requested());
}

TEST(StopTokenTest, AWaitEndsWithTheStopOrItsTime) {
  const StopSource source;
  EXPECT_FALSE(source.token().WaitFor(absl::ZeroDuration()));
  EXPECT_FALSE(source.token().WaitFor(absl::Milliseconds(1)));
  // Whichever comes first, the wait or the request: it does not last.
  std::thread waiter([token = source.token()] { EXPECT_TRUE(token.WaitFor(absl::InfiniteDuration())); });
  source.RequestStop();
  waiter.join();
  EXPECT_TRUE(source.token().WaitFor(absl::Hours(1)));
}

TEST(StopTokenTest, EveryLookIsCountedWithItsOperationsAndMayBeTheOneThatStops) {
  const StopSource source;
  LookMeter meter([&] { source.RequestStop(); }, 3);
  const StopToken token = source.token();
  EXPECT_TRUE(token.Poll(5).ok());
  EXPECT_FALSE(token.stop_requested(7));
  EXPECT_FALSE(token.Poll(11).ok());
  EXPECT_EQ(meter.looks(), 3);
  EXPECT_EQ(meter.operations(), 23);
  EXPECT_EQ(meter.after(), 0);
  EXPECT_TRUE(token.stop_requested(13));
  EXPECT_EQ(meter.after(), 13);
  // Nobody can raise the stop of an empty one.
  EXPECT_TRUE(StopToken().Poll(17).ok());
  EXPECT_EQ(meter.looks(), 4);
}

}  // namespace
}  // namespace luthier::base
