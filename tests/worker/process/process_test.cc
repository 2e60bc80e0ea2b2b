#include "worker/process/process.h"

#include <gmock/gmock.h>

namespace luthier::worker {
namespace {

TEST(FindProgram, SearchesLikeAShell) {
  EXPECT_EQ(*FindProgram("sh", "/no/such:/bin"), "/bin/sh");
  EXPECT_EQ(*FindProgram("/bin/sh", ""), "/bin/sh");
  EXPECT_TRUE(absl::IsNotFound(FindProgram("sh", "/no/such").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(FindProgram("/etc/passwd", "").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(FindProgram("/", "").status()));
}

}  // namespace
}  // namespace luthier::worker
