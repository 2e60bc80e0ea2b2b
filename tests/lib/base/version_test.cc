#include "lib/base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/base/processor.h"

namespace luthier::base {
namespace {

TEST(VersionTest, TheTextSaysVersionCommitAndLevel) {
  EXPECT_THAT(VersionText(),
              ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+ \\(([0-9a-f]+(-dirty)?|unknown), [a-z0-9-]+\\)"));
}

TEST(VersionTest, TheLevelIsTheOneThatTheLauncherChoosesBy) {
#ifdef __x86_64__
  EXPECT_STREQ(BuildLevel(), ProcessorLevel(kProcessorNeeds));
#endif
}

}  // namespace
}  // namespace luthier::base
