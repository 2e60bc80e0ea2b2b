#include "lib/base/retry_advice.h"

#include <gtest/gtest.h>

#include <set>

#include "lib/base/error.h"

namespace luthier::base {
namespace {

using Code = absl::StatusCode;

absl::Status Delayed(Code code, const char* reason) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.retry_delay = absl::Seconds(1);
  return MakeError(code, "later", detail);
}

TEST(RetryAdvice, FollowsTheTable) {
  EXPECT_EQ(AdviceFor(absl::UnavailableError("")), RetryAdvice::kRepeat);
  EXPECT_EQ(AdviceFor(Delayed(Code::kUnavailable, reason::kStorageFull)), RetryAdvice::kRepeat);
  EXPECT_EQ(AdviceFor(absl::DeadlineExceededError("")), RetryAdvice::kRepeat);
  EXPECT_EQ(AdviceFor(absl::CancelledError("")), RetryAdvice::kRepeat);

  EXPECT_EQ(AdviceFor(absl::AbortedError("")), RetryAdvice::kFewTimes);
  EXPECT_EQ(AdviceFor(absl::InternalError("RST_STREAM")), RetryAdvice::kFewTimes);
  EXPECT_EQ(AdviceFor(absl::UnknownError("Stream removed")), RetryAdvice::kFewTimes);

  EXPECT_EQ(AdviceFor(Delayed(Code::kResourceExhausted, "")), RetryAdvice::kLater);
  EXPECT_EQ(AdviceFor(MakeError(Code::kResourceExhausted, reason::kQueueFull, "")), RetryAdvice::kLater);
  EXPECT_EQ(AdviceFor(MakeError(Code::kResourceExhausted, reason::kRateLimited, "")), RetryAdvice::kLater);

  EXPECT_EQ(AdviceFor(MakeError(Code::kResourceExhausted, reason::kLimitExceeded, "")), RetryAdvice::kAskForLess);
  EXPECT_EQ(AdviceFor(MakeError(Code::kResourceExhausted, reason::kMessageTooLarge, "")), RetryAdvice::kAskForLess);

  EXPECT_EQ(AdviceFor(BadField("f", "bad")), RetryAdvice::kMend);
  EXPECT_EQ(AdviceFor(absl::OutOfRangeError("")), RetryAdvice::kMend);

  EXPECT_EQ(AdviceFor(absl::NotFoundError("")), RetryAdvice::kRefused);
  EXPECT_EQ(AdviceFor(absl::AlreadyExistsError("")), RetryAdvice::kRefused);
  EXPECT_EQ(AdviceFor(MakeError(Code::kFailedPrecondition, reason::kLeaseLost, "")), RetryAdvice::kRefused);

  EXPECT_EQ(AdviceFor(absl::PermissionDeniedError("")), RetryAdvice::kForbidden);
  EXPECT_EQ(AdviceFor(absl::UnauthenticatedError("")), RetryAdvice::kForbidden);
  EXPECT_EQ(AdviceFor(absl::UnimplementedError("")), RetryAdvice::kForbidden);

  EXPECT_EQ(AdviceFor(MakeError(Code::kInternal, reason::kBug, "")), RetryAdvice::kFault);
  EXPECT_EQ(AdviceFor(absl::DataLossError("")), RetryAdvice::kFault);
  EXPECT_EQ(AdviceFor(absl::ResourceExhaustedError("message larger than max")), RetryAdvice::kFault);
}

TEST(RetryAdvice, SaysWhatMayBeRepeatedAndWhatMustBe) {
  const std::set<RetryAdvice> unknown = {RetryAdvice::kRepeat, RetryAdvice::kFewTimes};
  for (const RetryAdvice advice :
       {RetryAdvice::kRepeat, RetryAdvice::kFewTimes, RetryAdvice::kLater, RetryAdvice::kAskForLess, RetryAdvice::kMend,
        RetryAdvice::kRefused, RetryAdvice::kForbidden, RetryAdvice::kFault}) {
    EXPECT_EQ(OutcomeUnknown(advice), unknown.count(advice) == 1) << static_cast<int>(advice);
    EXPECT_EQ(MayRepeat(advice), unknown.count(advice) == 1 || advice == RetryAdvice::kLater)
        << static_cast<int>(advice);
    EXPECT_EQ(PassesWithTime(advice), advice == RetryAdvice::kRepeat || advice == RetryAdvice::kLater)
        << static_cast<int>(advice);
  }
}

TEST(RetryAdvice, AReasonIsAnAnswer) {
  EXPECT_TRUE(NobodyAnswered(absl::UnavailableError("")));
  EXPECT_TRUE(NobodyAnswered(absl::DeadlineExceededError("")));
  EXPECT_FALSE(NobodyAnswered(MakeError(Code::kUnavailable, reason::kStarting, "")));
  EXPECT_FALSE(NobodyAnswered(absl::CancelledError("")));
  EXPECT_FALSE(NobodyAnswered(absl::OkStatus()));
}

TEST(RetryAdviceDeathTest, SuccessHasNone) {
  EXPECT_DEATH(AdviceFor(absl::OkStatus()), "status.ok");
}

}  // namespace
}  // namespace luthier::base
