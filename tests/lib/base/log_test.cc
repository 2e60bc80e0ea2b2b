#include "lib/base/log.h"

#include <gtest/gtest.h>

#include <string>

#include "lib/base/clock.h"

namespace luthier::base {
namespace {

TEST(LogTest, PlainValuesStandUnquoted) {
  EXPECT_EQ(FormatLogLine("trial_granted", {{"trial", "studies/a/trials/3"}, {"attempt", "1"}}),
            "trial_granted trial=studies/a/trials/3 attempt=1");
  EXPECT_EQ(FormatLogLine("started", {}), "started");
}

TEST(LogTest, ALineIsAlwaysOneLine) {
  EXPECT_EQ(FormatLogLine("e", {{"k", "two words"}}), "e k=\"two words\"");
  EXPECT_EQ(FormatLogLine("e", {{"k", ""}}), "e k=\"\"");
  EXPECT_EQ(FormatLogLine("e", {{"k", "a\nb\tc"}}), "e k=\"a\\x0ab\\x09c\"");
  EXPECT_EQ(FormatLogLine("e", {{"k", "say \"x=1\" \\"}}), "e k=\"say \\\"x=1\\\" \\\\\"");
  EXPECT_EQ(FormatLogLine("e", {{"k", std::string("\0", 1)}}), "e k=\"\\x00\"");
}

TEST(LogTest, LevelsHaveNames) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("debug", &level));
  EXPECT_EQ(level, LogLevel::kDebug);
  EXPECT_TRUE(ParseLogLevel("info", &level));
  EXPECT_EQ(level, LogLevel::kInfo);
  EXPECT_TRUE(ParseLogLevel("warning", &level));
  EXPECT_EQ(level, LogLevel::kWarning);
  EXPECT_TRUE(ParseLogLevel("error", &level));
  EXPECT_EQ(level, LogLevel::kError);
  EXPECT_TRUE(ParseLogLevel("off", &level));
  EXPECT_EQ(level, LogLevel::kOff);
  EXPECT_FALSE(ParseLogLevel("loud", &level));
  EXPECT_EQ(level, LogLevel::kOff);
}

TEST(LogTest, OnlyLinesOfTheLevelAreWritten) {
  SetLogLevel(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  LogInfo("quiet");
  LogWarning("loud", {{"why", "{} %s"}});
  const std::string written = ::testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(written.find("quiet"), std::string::npos);
  EXPECT_NE(written.find(" warning loud why=\"{} %s\"\n"), std::string::npos) << written;
}

TEST(ClockTest, AManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const absl::Duration start = clock.Monotonic();
  const absl::Time wall = clock.Wall();
  EXPECT_EQ(clock.Monotonic(), start);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(clock.Monotonic() - start, absl::Seconds(5));
  EXPECT_EQ(clock.Wall() - wall, absl::Seconds(5));
  clock.JumpWall(-absl::Hours(1));
  EXPECT_EQ(clock.Monotonic() - start, absl::Seconds(5));
  EXPECT_EQ(clock.Wall() - wall, absl::Seconds(5) - absl::Hours(1));
}

TEST(ClockTest, TheSystemClockNeverGoesBack) {
  const SystemClock clock;
  absl::Duration previous = clock.Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = clock.Monotonic();
    ASSERT_GE(now, previous);
    previous = now;
  }
  EXPECT_GT(clock.Wall(), absl::FromUnixSeconds(1'500'000'000));
}

}  // namespace
}  // namespace luthier::base
