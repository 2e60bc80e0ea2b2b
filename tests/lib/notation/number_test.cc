#include "lib/notation/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace luthier::notation {
namespace {

std::optional<double> Parsed(absl::string_view text) {
  double value = -7.0;
  return ParseNumber(text, &value) ? std::optional(value) : std::nullopt;
}

TEST(NumberTest, DecimalNumbersWithSignAndExponent) {
  EXPECT_EQ(Parsed("12"), 12.0);
  EXPECT_EQ(Parsed("+.5"), 0.5);
  EXPECT_EQ(Parsed("-2.5e-3"), -0.0025);
  EXPECT_EQ(Parsed("1E2"), 100.0);
}

TEST(NumberTest, TextThatIsNotANumberIsRefused) {
  for (const char* text : {"", "+", "+-1", "++1", " 1", "1 ", "0x10", "1,5", "1e", "one"}) {
    EXPECT_EQ(Parsed(text), std::nullopt) << text;
  }
}

TEST(NumberTest, TooSmallIsZeroAndTooLargeIsRefused) {
  EXPECT_EQ(Parsed("1e-999"), 0.0);
  EXPECT_EQ(Parsed("1e999"), std::nullopt);
}

TEST(NumberTest, NonFiniteNumbersOfManyLanguages) {
  for (const char* text : {"nan", "NaN", "NAN", "-nan", "+NaN", "nan(ind)", "-nan(snan)", "nan(0x8000)", "1.#IND",
                           "-1.#IND", "1.#QNAN", "1.#IND00", "-1.#IO"}) {
    const std::optional<double> value = ParseNonFinite(text);
    EXPECT_TRUE(value && std::isnan(*value)) << text;
  }
  for (const char* text : {"inf", "Inf", "+inf", "Infinity", "INFINITY", "1.#INF", "1.#INF00", "\xE2\x88\x9E"}) {
    EXPECT_EQ(ParseNonFinite(text), HUGE_VAL) << text;
  }
  for (const char* text : {"-inf", "-Infinity", "-1.#INF", "-\xE2\x88\x9E"})
    EXPECT_EQ(ParseNonFinite(text), -HUGE_VAL) << text;
  for (const char* text :
       {"", "-", "0", "1e9", "nano", "info", "infinit", "NA", "1.#", "1.5", "n", "1.#I N", "--inf"}) {
    EXPECT_EQ(ParseNonFinite(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace luthier::notation
