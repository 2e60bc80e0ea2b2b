#include "lib/base/log_limit.h"

#include <gtest/gtest.h>

namespace luthier::base {
namespace {

TEST(LogLimit, AdmitsOneLinePerOriginAndMinute) {
  ManualClock clock;
  LogLimit limit(&clock);
  EXPECT_EQ(limit.Admit("a.cc:1"), 0);
  EXPECT_EQ(limit.Admit("a.cc:1"), std::nullopt);
  EXPECT_EQ(limit.Admit("a.cc:2"), 0);
  clock.Advance(absl::Minutes(1) - absl::Nanoseconds(1));
  EXPECT_EQ(limit.Admit("a.cc:1"), std::nullopt);
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(limit.Admit("a.cc:1"), 2);
  EXPECT_EQ(limit.Admit("a.cc:1"), std::nullopt);
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(limit.Admit("a.cc:1"), 1);
  EXPECT_EQ(limit.Admit("a.cc:2"), 0);
}

}  // namespace
}  // namespace luthier::base
