#include "lib/study/output_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luthier::study {
namespace {

using ::testing::HasSubstr;

std::optional<std::string> Last(const std::string& pattern, absl::string_view text) {
  const absl::StatusOr<OutputPattern> compiled = OutputPattern::Compile(pattern);
  EXPECT_TRUE(compiled.ok()) << pattern << ": " << compiled.status();
  return compiled.ok() ? compiled->LastMatch(text) : std::nullopt;
}

std::string Refusal(const std::string& pattern) {
  return std::string(OutputPattern::Compile(pattern).status().message());
}

TEST(OutputPattern, TheLastMatchCounts) {
  EXPECT_EQ(Last("loss=([0-9.]+)", "loss=1.5 then loss=0.25"), "0.25");
  EXPECT_EQ(Last("loss=([0-9.]+)", "acc=1"), std::nullopt);
  EXPECT_EQ(Last("loss=([0-9.]+)", ""), std::nullopt);
  EXPECT_EQ(Last("aa(.)", "aaXaaY"), "Y");
}

TEST(OutputPattern, TheBeginningIsThatOfTheText) {
  EXPECT_EQ(Last("^(a)", "aaa"), "a");
  EXPECT_EQ(Last("^a(.)", "abab"), "b");
  EXPECT_EQ(Last("(?:^x|a)(.)", "axaxax1"), "x");  // Not "1": the text does not begin again after a match.
  EXPECT_EQ(Last("([0-9])$", "1 2 3"), "3");
}

TEST(OutputPattern, EmptyMatchesEnd) {
  EXPECT_EQ(Last("(x*)", "xxa"), "");
  EXPECT_EQ(Last("()", "abc"), "");
  EXPECT_EQ(Last("a(x)?", "axa"), "");  // The group took no part in the last match.
}

TEST(OutputPattern, TextIsBytes) {
  EXPECT_EQ(Last("l\xC3\xA4nge=(.+)", "l\xC3\xA4nge=3"), "3");
  EXPECT_EQ(Last("x(.)y", absl::string_view("x\xFFy")), "\xFF");
  EXPECT_EQ(Last("(b+)", absl::string_view("a\0bb", 4)), "bb");
}

// A matcher that backtracks would take 2^600 steps.
TEST(OutputPattern, NoExpressionTakesExponentialTime) {
  EXPECT_EQ(Last("((a|a)*)*b", std::string(600, 'a')), std::nullopt);
  EXPECT_EQ(Last("(?:(?:a|a)*)*loss=(.)", std::string(600, 'a') + "loss=1"), "1");
}

TEST(OutputPattern, WhatNeedsBacktrackingIsRefused) {
  for (const char* pattern : {R"((a+)\1)", R"((x)(?=y))", R"((x)(?!y))"}) {
    EXPECT_THAT(Refusal(pattern), HasSubstr("has no back-references and no look-ahead: ")) << pattern;
  }
}

TEST(OutputPattern, MistakesAreNamed) {
  EXPECT_THAT(Refusal("x("), HasSubstr("no look-ahead: missing ): x("));
  EXPECT_EQ(Refusal("[0-9]+"), "has no group; put parentheses around the number");
  EXPECT_EQ(Refusal("(?:x)"), "has no group; put parentheses around the number");
  // Small to write, large to compile.
  EXPECT_THAT(Refusal("((((a{100}){100}){100}){100})"), HasSubstr("is not a regular expression of RE2"));
}

}  // namespace
}  // namespace luthier::study
