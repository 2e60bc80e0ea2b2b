#include "lib/notation/number.h"

#include <gtest/gtest.h>

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

TEST(NumberTest, WhatIsNoNumberIsRefused) {
  for (const char* text : {"", "+", "+-1", "++1", " 1", "1 ", "0x10", "1,5", "1e", "one"}) {
    EXPECT_EQ(Parsed(text), std::nullopt) << text;
  }
}

TEST(NumberTest, TooSmallIsZeroAndTooLargeIsRefused) {
  EXPECT_EQ(Parsed("1e-999"), 0.0);
  EXPECT_EQ(Parsed("1e999"), std::nullopt);
}

}  // namespace
}  // namespace luthier::notation
