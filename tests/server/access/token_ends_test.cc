// Tokens that end within fourteen days are counted, and logged once a day.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "server/access/registry.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::access::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kOneDay = absl::Hours(24);

class TokenEndsTest : public ::testing::Test {
 protected:
  void SetUp() override { base::SetLogLevel(base::LogLevel::kInfo); }
  void TearDown() override { base::SetLogLevel(base::LogLevel::kError); }
  std::string Make(const std::string& name, absl::Duration lifetime) {
    TokenRecord wanted;
    wanted.name = name;
    wanted.roles = {Role::kUser};
    wanted.lifetime = lifetime;
    return registry_->CreateToken(wanted).value().first.id;
  }
  std::vector<std::string> Ending() const {
    std::vector<std::string> names;
    for (const TokenRecord& token : registry_->EndingSoon()) names.push_back(token.name);
    return names;
  }
  std::string Warned() {
    ::testing::internal::CaptureStderr();
    registry_->WarnOfEnds();
    return ::testing::internal::GetCapturedStderr();
  }

  base::ManualClock clock_;
  luthier::testing::TemporaryDirectory dir_;
  std::unique_ptr<Registry> registry_ = Registry::Open(dir_.path(), &clock_).value();
};

TEST_F(TokenEndsTest, AreForeseenFourteenDaysBefore) {
  Make("late", 31 * kOneDay);
  Make("early", 30 * kOneDay);
  Make("short", 14 * kOneDay);  // It ends soon on purpose.
  const std::string revoked = Make("revoked", 30 * kOneDay);
  ASSERT_TRUE(registry_->RevokeToken(revoked).ok());
  clock_.Advance(16 * kOneDay - absl::Seconds(1));
  EXPECT_THAT(Ending(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Ending(), ElementsAre("early"));
  clock_.Advance(kOneDay);
  EXPECT_THAT(Ending(), ElementsAre("early", "late"));
  clock_.Advance(13 * kOneDay);
  EXPECT_THAT(Ending(), ElementsAre("late"));  // The other one has ended.
  clock_.Advance(kOneDay);
  EXPECT_THAT(Ending(), IsEmpty());
}

TEST_F(TokenEndsTest, AreLoggedOnceADay) {
  const std::string id = Make("ada", 30 * kOneDay);
  EXPECT_EQ(Warned(), "");
  clock_.Advance(17 * kOneDay);
  EXPECT_THAT(Warned(), AllOf(HasSubstr("warning token_ends token=" + id), HasSubstr("name=ada"), HasSubstr("days=13"),
                              HasSubstr("luthier admin token rotate " + id + " --overlap 24h")));
  clock_.Advance(kOneDay - absl::Seconds(1));
  EXPECT_EQ(Warned(), "");
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Warned(), HasSubstr("days=12"));
  // A token that was rotated is warned of no more.
  ASSERT_TRUE(registry_->RotateToken(id, absl::ZeroDuration(), 30 * kOneDay).ok());
  clock_.Advance(kOneDay);
  EXPECT_EQ(Warned(), "");
}

}  // namespace
}  // namespace luthier::access::testing
