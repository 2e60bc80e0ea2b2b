#include "lib/base/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace luthier::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Describe(uint32_t missing, uint32_t has) {
  char text[600];
  DescribeMissing("luthierd", missing, has, text, sizeof(text));
  return text;
}

TEST(Processor, ThisProcessorHasTheFeaturesOfThisBuild) {
  EXPECT_EQ(kProcessorNeeds & ~ProcessorHas(), 0u);
}

#ifdef __AVX2__
TEST(Processor, TheNeedsAreThoseOfTheBuild) {
  EXPECT_NE(kProcessorNeeds & kAvx2, 0u);
}
#endif

TEST(Processor, NamesWhatIsMissingAndTheLevelThatRuns) {
  const uint32_t v2 = kSse3 | kSsse3 | kSse41 | kSse42 | kPopcnt;
  const uint32_t v3 = v2 | kAvx | kF16c | kMovbe | kFma | kAvx2 | kBmi1 | kBmi2 | kLzcnt;
  EXPECT_THAT(Describe(kAvx2 | kFma, v2), HasSubstr("luthierd: this processor lacks FMA, AVX2, which"));
  EXPECT_THAT(Describe(kAvx2, v2), HasSubstr("-DLUTHIER_MARCH=x86-64-v2 (containers: LUTHIER_MARCH=x86-64-v2 "));
  EXPECT_THAT(Describe(kAvx512f, v3), HasSubstr("LUTHIER_MARCH=x86-64-v3 "));
  EXPECT_THAT(Describe(kSse42, kSse3), HasSubstr("LUTHIER_MARCH=x86-64 "));
  EXPECT_THAT(Describe(kSse42, kSse3), Not(HasSubstr("x86-64-v")));
}

TEST(Processor, TheMessageOfEveryFeatureFits) {
  const std::string all = Describe((1u << kProcessorFeatures) - 1, 0);
  EXPECT_EQ(all.back(), '\n');
  EXPECT_THAT(all, HasSubstr("AVX512VL"));
  char small[20];
  DescribeMissing("luthierd", kAvx2, 0, small, sizeof(small));
  EXPECT_EQ(std::string(small), "luthierd: this proc");
}

}  // namespace
}  // namespace luthier::base
