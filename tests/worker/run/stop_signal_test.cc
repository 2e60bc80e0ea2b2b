#include "worker/run/stop_signal.h"

#include <gtest/gtest.h>

namespace luthier::worker {
namespace {

TEST(StopSignal, AFinishReplacesAPauseAndIsReplacedByTheRest) {
  StopSignal signal;
  signal.Request(StopReason::kPause);
  signal.Request(StopReason::kFinish);
  EXPECT_EQ(signal.reason(), StopReason::kFinish);
  signal.Request(StopReason::kPause);
  signal.Request(StopReason::kFinish);
  EXPECT_EQ(signal.reason(), StopReason::kFinish);
  signal.Request(StopReason::kDrain);
  signal.Request(StopReason::kFinish);
  EXPECT_EQ(signal.reason(), StopReason::kDrain);
}

TEST(StopSignal, AnythingReplacesAPauseAndNothingElse) {
  StopSignal signal;
  signal.Request(StopReason::kPause);
  EXPECT_TRUE(signal.token().stop_requested());
  signal.Request(StopReason::kPause);
  EXPECT_EQ(signal.reason(), StopReason::kPause);
  signal.Request(StopReason::kLost);
  EXPECT_EQ(signal.reason(), StopReason::kLost);
  signal.Request(StopReason::kPause);
  signal.Request(StopReason::kCancelled);
  EXPECT_EQ(signal.reason(), StopReason::kLost);
}

}  // namespace
}  // namespace luthier::worker
