#include "lib/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"

namespace luthier::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ErrorTest, CarriesItsWholeDetail) {
  ErrorDetail detail;
  detail.reason = reason::kRateLimited;
  detail.violations = {{"a.b[3]", "is \"bad\"\n"}, {"", "ü"}};
  detail.retry_delay = absl::Milliseconds(1500);
  detail.metadata = {{"limit", "100"}, {"scope", "study"}};
  const absl::Status status = MakeError(absl::StatusCode::kResourceExhausted, "slow down", detail);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status), "slow down");
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(*GetErrorDetail(status), detail);
}

TEST(ErrorTest, TheShortFormCarriesReasonAndMessage) {
  const absl::Status status = MakeError(absl::StatusCode::kNotFound, reason::kNotFound, "no such study");
  EXPECT_EQ(GetReason(status), "NOT_FOUND");
  EXPECT_EQ(Message(status), "no such study");
  EXPECT_TRUE(GetErrorDetail(status)->violations.empty());
}

TEST(ErrorTest, ForeignStatusesHaveNoDetail) {
  EXPECT_FALSE(GetErrorDetail(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetErrorDetail(absl::InternalError("x")).has_value());
  EXPECT_EQ(GetReason(absl::InternalError("x")), "");
}

TEST(ErrorTest, ADetailWithBrokenTextStillReadsBack) {
  ErrorDetail detail;
  detail.reason = reason::kBug;
  detail.metadata = {{"raw", "\xff\xfe"}};
  const absl::Status status = MakeError(absl::StatusCode::kInternal, "m", detail);
  EXPECT_EQ(GetReason(status), "BUG");
}

TEST(ErrorTest, BadFieldNamesTheField) {
  const absl::Status status = BadField("space[3].float.max", "is below min");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "space[3].float.max: is below min");
  EXPECT_EQ(GetReason(status), "BAD_FIELD");
  EXPECT_THAT(GetErrorDetail(status)->violations, ElementsAre(FieldViolation{"space[3].float.max", "is below min"}));
}

TEST(ViolationsTest, NoViolationIsOk) {
  Violations violations;
  EXPECT_TRUE(violations.empty());
  violations.AddAll("x", absl::OkStatus());
  EXPECT_TRUE(violations.empty());
  EXPECT_TRUE(violations.ToStatus().ok());
}

TEST(ViolationsTest, AllAreReportedAtOnce) {
  Violations violations;
  violations.Add("a", "one");
  violations.Add("b", "two");
  EXPECT_EQ(Message(violations.ToStatus()), "a: one\nb: two");
}

TEST(ViolationsTest, OnlyTheFirstAreListedAndTheRestCounted) {
  Violations violations;
  for (int i = 0; i < kMaxViolations + 5; ++i) violations.Add(absl::StrCat("f", i), "bad");
  const absl::Status status = violations.ToStatus();
  EXPECT_EQ(GetErrorDetail(status)->violations.size(), static_cast<size_t>(kMaxViolations));
  EXPECT_THAT(Message(status), HasSubstr("… and 5 more"));
}

TEST(ViolationsTest, NestedFieldsGetTheirPrefix) {
  Violations violations;
  violations.AddAll("space", BadField("[3].float.max", "bad"));
  violations.AddAll("algorithm", BadField("grid.levels", "bad"));
  violations.AddAll("", BadField("metric", "bad"));
  violations.AddAll("seed", BadField("", "bad"));
  violations.AddAll("other", absl::InternalError("no detail"));
  EXPECT_THAT(GetErrorDetail(violations.ToStatus())->violations,
              ElementsAre(FieldViolation{"space[3].float.max", "bad"}, FieldViolation{"algorithm.grid.levels", "bad"},
                          FieldViolation{"metric", "bad"}, FieldViolation{"seed", "bad"},
                          FieldViolation{"other", "no detail"}));
}

TEST(QuoteTest, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(Quote("lr"), "\"lr\"");
  EXPECT_EQ(Quote(""), "\"\"");
  EXPECT_EQ(Quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(Quote("a\nb\x7f"), "\"a\\x0ab\\x7f\"");
  EXPECT_EQ(Quote(std::string("\0", 1)), "\"\\x00\"");
  EXPECT_EQ(Quote("grün"), "\"grün\"");
  EXPECT_EQ(Quote("a\u202Eb\xff"), "\"a\\u202eb\\xff\"");
}

TEST(QuoteTest, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(Quote(std::string(64, 'a')), absl::StrCat("\"", std::string(64, 'a'), "\""));
  EXPECT_EQ(Quote(std::string(65, 'a')), absl::StrCat("\"", std::string(64, 'a'), "…\""));
  // 63 + the two bytes of ü: the cut comes after it, not in it.
  const std::string text = std::string(63, 'a') + "üb";
  EXPECT_EQ(Quote(text), absl::StrCat("\"", std::string(63, 'a'), "ü…\""));
}

TEST(QuoteTest, CutsHostileTextOfContinuationBytesToo) {
  EXPECT_LT(Quote(std::string(1'000'000, '\x80')).size(), 300u);
  EXPECT_LT(Quote(std::string(1'000'000, '\n')).size(), 300u);
}

TEST(DidYouMeanTest, FindsTheClosestName) {
  const std::vector<std::string> names = {"learning_rate", "momentum", "l2"};
  EXPECT_EQ(ClosestMatch("learning_rat", names), "learning_rate");
  EXPECT_EQ(ClosestMatch("momentun", names), "momentum");
  EXPECT_EQ(ClosestMatch("l1", names), "l2");
  EXPECT_EQ(ClosestMatch("batch", names), "");
  EXPECT_EQ(DidYouMean("momentun", names), " (did you mean \"momentum\"?)");
  EXPECT_EQ(DidYouMean("batch", names), "");
}

TEST(DidYouMeanTest, DoesNotGuessFromNothing) {
  EXPECT_EQ(ClosestMatch("q", {"a", "b"}), "");
  EXPECT_EQ(ClosestMatch("", {"a", "b"}), "");
  EXPECT_EQ(ClosestMatch("a", {}), "");
  EXPECT_EQ(ClosestMatch(std::string(100'000, 'a'), {"a"}), "");
}

TEST(StatusMacrosTest, ReturnTheFirstError) {
  const auto half = [](int x) -> absl::StatusOr<int> {
    if (x % 2 != 0) return absl::InvalidArgumentError("odd");
    return x / 2;
  };
  const auto quarter = [&](int x) -> absl::StatusOr<int> {
    LUTHIER_ASSIGN_OR_RETURN(const int once, half(x));
    LUTHIER_ASSIGN_OR_RETURN(const int twice, half(once));
    LUTHIER_RETURN_IF_ERROR(absl::OkStatus());
    return twice;
  };
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(7).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(quarter(6).status(), absl::InvalidArgumentError("odd"));
}

}  // namespace
}  // namespace luthier::base
