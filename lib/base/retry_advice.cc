#include "lib/base/retry_advice.h"

#include <optional>
#include <string>

#include "lib/base/check.h"
#include "lib/base/error.h"

namespace luthier::base {
namespace {

RetryAdvice OfExhausted(const std::optional<ErrorDetail>& detail) {
  if (!detail) return RetryAdvice::kFault;
  const std::string& why = detail->reason;
  if (why == reason::kLimitExceeded || why == reason::kMessageTooLarge) return RetryAdvice::kAskForLess;
  const bool passes = detail->retry_delay || why == reason::kQueueFull || why == reason::kRateLimited;
  return passes ? RetryAdvice::kLater : RetryAdvice::kFault;
}

}  // namespace

RetryAdvice AdviceFor(const absl::Status& status) {
  LUTHIER_CHECK(!status.ok());
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return RetryAdvice::kRepeat;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return GetReason(status).empty() ? RetryAdvice::kFewTimes : RetryAdvice::kFault;
    case absl::StatusCode::kResourceExhausted:
      return OfExhausted(GetErrorDetail(status));
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return RetryAdvice::kMend;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
      return RetryAdvice::kRefused;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return RetryAdvice::kForbidden;
    default:
      return RetryAdvice::kFault;
  }
}

bool MayRepeat(RetryAdvice advice) {
  return OutcomeUnknown(advice) || advice == RetryAdvice::kLater;
}

bool PassesWithTime(RetryAdvice advice) {
  return advice == RetryAdvice::kRepeat || advice == RetryAdvice::kLater;
}

bool OutcomeUnknown(RetryAdvice advice) {
  return advice == RetryAdvice::kRepeat || advice == RetryAdvice::kFewTimes;
}

bool NobodyAnswered(const absl::Status& status) {
  return (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) && GetReason(status).empty();
}

}  // namespace luthier::base
