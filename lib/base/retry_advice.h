#ifndef LUTHIER_LIB_BASE_RETRY_ADVICE_H_
#define LUTHIER_LIB_BASE_RETRY_ADVICE_H_

#include "absl/status/status.h"

// One table that says what a failed call means to its caller, for clients and workers alike. The caller decides how
// long it is patient. Every call of the API may be sent again: reads and heartbeats by nature, writes by their request
// id or token.
//
// | status                                                                   | advice      |
// |--------------------------------------------------------------------------|-------------|
// | UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED                                | kRepeat     |
// | ABORTED, INTERNAL, UNKNOWN without a reason of ours                      | kFewTimes   |
// | RESOURCE_EXHAUSTED with a retry_delay, or QUEUE_FULL or RATE_LIMITED     | kLater      |
// | RESOURCE_EXHAUSTED with LIMIT_EXCEEDED or MESSAGE_TOO_LARGE              | kAskForLess |
// | INVALID_ARGUMENT, OUT_OF_RANGE                                           | kMend       |
// | ALREADY_EXISTS, FAILED_PRECONDITION, NOT_FOUND                           | kRefused    |
// | PERMISSION_DENIED, UNAUTHENTICATED, UNIMPLEMENTED                        | kForbidden  |
// | all others, which are DATA_LOSS, bugs, and limits that are none of ours  | kFault      |
namespace luthier::base {

enum class RetryAdvice {
  kRepeat,      // The outcome is unknown. Send the same request, with the same id, until there is an answer.
  kFewTimes,    // The outcome is unknown after what may be an accident on the way. Send the same request a few times.
  kLater,       // The server did nothing for lack of room. Send it, or another request, after the delay it names.
  kAskForLess,  // A limit stands against the request. A smaller one may be taken.
  kMend,        // The request is wrong and will never be taken.
  kRefused,     // The study or trial is not in a state, or not there, to take the request.
  kForbidden,   // The server does not serve this caller, or does not know the call. An operator may mend it.
  kFault,       // The server has a bug or damaged data. An operator may mend it.
};

// `status` must not be OK.
RetryAdvice AdviceFor(const absl::Status& status);

// Returns true for kRepeat, kFewTimes and kLater: the server has not answered the request.
bool MayRepeat(RetryAdvice advice);

// Returns true for kRepeat and kLater: the trouble passes with time, so that the repetitions need not be counted.
bool PassesWithTime(RetryAdvice advice);

// Returns true for kRepeat and kFewTimes: the request may have had its effect. It must be repeated as it was.
bool OutcomeUnknown(RetryAdvice advice);

// Returns true if no server was reached, or none answered in time: UNAVAILABLE or DEADLINE_EXCEEDED without a reason of
// ours. With a reason it is an answer of a server that is in trouble of its own.
bool NobodyAnswered(const absl::Status& status);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_RETRY_ADVICE_H_
