#include "lib/study/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "lib/base/random.h"

namespace luthier::study {
namespace {

TEST(ParametersTest, NamesAreOfLettersDigitsPointsAndUnderscores) {
  for (const char* good : {"a", "_", "learning_rate", "A.b.C9", "_0"}) EXPECT_TRUE(IsName(good)) << good;
  for (const char* bad : {"", "0", ".a", "a-b", "a b", "ä", "a\n", "a/b"}) EXPECT_FALSE(IsName(bad)) << bad;
  EXPECT_TRUE(IsName(std::string(64, 'x')));
  EXPECT_FALSE(IsName(std::string(65, 'x')));
  EXPECT_FALSE(IsName(std::string("a\0", 2)));
}

TEST(ParametersTest, ValuesPrintShort) {
  EXPECT_EQ(FormatDouble(1.0), "1");
  EXPECT_EQ(FormatDouble(-3.0), "-3");
  EXPECT_EQ(FormatDouble(0.1), "0.1");
  EXPECT_EQ(FormatDouble(1e-8), "1e-08");
  EXPECT_EQ(FormatDouble(std::nan("")), "NaN");
  EXPECT_EQ(FormatDouble(-std::nan("")), "NaN");
  EXPECT_EQ(FormatDouble(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(FormatDouble(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(FormatValue(true), "true");
  EXPECT_EQ(FormatValue("rbf"), "rbf");
  EXPECT_EQ(FormatParameters({{"c", "rbf"}, {"a", 1.0}, {"b", 0.5}}), "a=1, b=0.5, c=rbf");
  EXPECT_EQ(FormatParameters({}), "");
}

TEST(ParametersTest, EqualSettingsHaveEqualHashesAndOthersDoNot) {
  const Parameters all[] = {{},
                            {{"a", 1.0}},
                            {{"a", true}},
                            {{"a", "1"}},
                            {{"a", std::nextafter(1.0, 2.0)}},
                            {{"b", 1.0}},
                            {{"a", 1.0}, {"b", 1.0}},
                            {{"a", "b"}, {"c", "d"}},
                            {{"a", "bc"}, {"c", "d"}},
                            {{"ab", "c"}, {"c", "d"}},
                            {{"a", false}},
                            {{"a", 0.0}}};
  for (const Parameters& one : all) {
    for (const Parameters& other : all) EXPECT_EQ(HashOf(one) == HashOf(other), one == other);
  }
  EXPECT_EQ(HashOf({{"a", -0.0}}), HashOf({{"a", 0.0}}));
}

TEST(ParametersTest, PrintedNumbersReadBackToTheSameDouble) {
  base::RandomStream random(1, "test/format");
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t bits = random.NextU64();
    double x;
    static_assert(sizeof(x) == sizeof(bits));
    __builtin_memcpy(&x, &bits, sizeof(x));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(std::strtod(FormatDouble(x).c_str(), nullptr), x);
  }
}

}  // namespace
}  // namespace luthier::study
