#include "server/exposure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luthier::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Exposure, IsLoggedAtOnceAndEveryHour) {
  base::ManualClock clock;
  std::vector<std::string> said;
  ExposureReminder reminder({{"plaintext", "0.0.0.0:7790", "can be read"}, {"no_tokens", "0.0.0.0:7790", "admins"}},
                            &clock, [&](const Exposure& exposure) { said.push_back(exposure.event); });
  EXPECT_THAT(said, ElementsAre("plaintext", "no_tokens"));
  clock.Advance(ExposureReminder::kPeriod - absl::Milliseconds(1));
  reminder.Tick();
  EXPECT_EQ(said.size(), 2u);
  clock.Advance(absl::Milliseconds(1));
  reminder.Tick();
  reminder.Tick();
  EXPECT_EQ(said.size(), 4u);
  clock.Advance(10 * ExposureReminder::kPeriod);  // What was slept through is not made up for.
  reminder.Tick();
  reminder.Tick();
  EXPECT_EQ(said.size(), 6u);
}

TEST(Exposure, NothingIsLoggedWithoutExposures) {
  base::ManualClock clock;
  std::vector<std::string> said;
  ExposureReminder reminder({}, &clock, [&](const Exposure& exposure) { said.push_back(exposure.event); });
  clock.Advance(10 * ExposureReminder::kPeriod);
  reminder.Tick();
  EXPECT_THAT(said, IsEmpty());
}

}  // namespace
}  // namespace luthier::server
