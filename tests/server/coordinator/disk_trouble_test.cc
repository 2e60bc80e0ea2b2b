#include "server/coordinator/writer/disk_trouble.h"

#include <gtest/gtest.h>

namespace luthier::coordinator {
namespace {

TEST(DiskTrouble, IsLoggedOnceAtItsBeginningAndOnceAtItsEnd) {
  DiskTrouble trouble;
  EXPECT_FALSE(trouble.Succeeded(absl::Seconds(1)));
  EXPECT_TRUE(trouble.Failed(absl::Seconds(10)));
  // Small writes get through, large ones do not, for an hour.
  absl::Duration now = absl::Seconds(10);
  for (; now < absl::Hours(1); now += absl::Seconds(5)) {
    EXPECT_FALSE(trouble.Failed(now));
    EXPECT_FALSE(trouble.Succeeded(now + absl::Seconds(2)));
  }
  EXPECT_FALSE(trouble.Succeeded(now + absl::Seconds(9)));
  EXPECT_TRUE(trouble.Succeeded(now + absl::Seconds(10)));
  EXPECT_FALSE(trouble.Succeeded(now + absl::Seconds(11)));
  EXPECT_TRUE(trouble.Failed(now + absl::Seconds(12)));
}

}  // namespace
}  // namespace luthier::coordinator
