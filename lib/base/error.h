#ifndef LUTHIER_LIB_BASE_ERROR_H_
#define LUTHIER_LIB_BASE_ERROR_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// The one error type is absl::Status with one payload, ErrorDetail, that lib/wire carries to the other side.
// A message says what is wrong, where, and how to mend it.
namespace luthier::base {

// Machine-readable reasons. A caller branches on these, never on message text.
namespace reason {
inline constexpr char kBadField[] = "BAD_FIELD";
inline constexpr char kRequestIdReused[] = "REQUEST_ID_REUSED";
inline constexpr char kLimitExceeded[] = "LIMIT_EXCEEDED";
inline constexpr char kNotFound[] = "NOT_FOUND";
inline constexpr char kStudyExists[] = "STUDY_EXISTS";
inline constexpr char kLeaseLost[] = "LEASE_LOST";
inline constexpr char kTrialFinal[] = "TRIAL_FINAL";
inline constexpr char kConflictingReport[] = "CONFLICTING_REPORT";
inline constexpr char kStudyPaused[] = "STUDY_PAUSED";
inline constexpr char kStudyFinished[] = "STUDY_FINISHED";
inline constexpr char kTrialsRunning[] = "TRIALS_RUNNING";
inline constexpr char kTrialOpen[] = "TRIAL_OPEN";
inline constexpr char kReproducible[] = "REPRODUCIBLE";
inline constexpr char kNotOpen[] = "NOT_OPEN";
inline constexpr char kNotGranted[] = "NOT_GRANTED";
inline constexpr char kParameterDiffers[] = "PARAMETER_DIFFERS";
inline constexpr char kTooFewResults[] = "TOO_FEW_RESULTS";
inline constexpr char kNoModel[] = "NO_MODEL";
inline constexpr char kTokenExists[] = "TOKEN_EXISTS";
inline constexpr char kProjectExists[] = "PROJECT_EXISTS";
inline constexpr char kNoStore[] = "NO_STORE";
inline constexpr char kNoToken[] = "NO_TOKEN";
inline constexpr char kBadToken[] = "BAD_TOKEN";
inline constexpr char kExpired[] = "EXPIRED";
inline constexpr char kRevoked[] = "REVOKED";
inline constexpr char kRole[] = "ROLE";
inline constexpr char kQueueFull[] = "QUEUE_FULL";
inline constexpr char kMemory[] = "MEMORY";
inline constexpr char kRateLimited[] = "RATE_LIMITED";
inline constexpr char kMessageTooLarge[] = "MESSAGE_TOO_LARGE";
inline constexpr char kDraining[] = "DRAINING";
inline constexpr char kStorageFull[] = "STORAGE_FULL";
inline constexpr char kStorageLow[] = "STORAGE_LOW";
inline constexpr char kStarting[] = "STARTING";
inline constexpr char kReplyLost[] = "REPLY_LOST";
inline constexpr char kSpaceExhausted[] = "SPACE_EXHAUSTED";
inline constexpr char kAnswered[] = "ANSWERED";
inline constexpr char kAwaitingResults[] = "AWAITING_RESULTS";
inline constexpr char kUnimplemented[] = "UNIMPLEMENTED";
inline constexpr char kBug[] = "BUG";
}  // namespace reason

struct FieldViolation {
  std::string field;        // Path as the user wrote it: space[3].float.max
  std::string description;  // Says what is wrong and how to mend it.
  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};

struct ErrorDetail {
  std::string reason;                           // One of base::reason.
  std::vector<FieldViolation> violations;       // For INVALID_ARGUMENT; at most kMaxViolations.
  std::optional<absl::Duration> retry_delay;    // Set where the same call may succeed later.
  std::map<std::string, std::string> metadata;  // E.g. the limit that was exceeded.
  friend bool operator==(const ErrorDetail&, const ErrorDetail&) = default;
};

inline constexpr int kMaxViolations = 20;

absl::Status MakeError(absl::StatusCode code, absl::string_view message, ErrorDetail detail);
// Short form for the common case: code, reason, message.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message);
// Returns INVALID_ARGUMENT with one violation; the message is "field: description".
absl::Status BadField(absl::string_view field, absl::string_view description);

// Returns std::nullopt for statuses that were not made here.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);
// Returns "" if there is no detail.
std::string GetReason(const absl::Status& status);

// Makes caller text safe for a message: quoted, control characters escaped, cut to 64 characters.
std::string Quote(absl::string_view caller_text);

// Collects every violation of a request, so that the caller mends them in one go.
class Violations {
 public:
  void Add(absl::string_view field, absl::string_view description);
  // Takes over the violations of `status`, their fields prefixed; OK adds nothing.
  void AddAll(absl::string_view prefix, const absl::Status& status);
  // Does the same, but replaces `from` at the start of their fields by `to`.
  void AddMoved(absl::string_view from, absl::string_view to, const absl::Status& status);
  bool empty() const { return count_ == 0; }
  // Returns OK if there are no violations, else INVALID_ARGUMENT BAD_FIELD naming the first kMaxViolations and how many
  // more there are.
  absl::Status ToStatus() const;

 private:
  std::vector<FieldViolation> violations_;
  int count_ = 0;
};

// Returns the closest of `candidates` for "did you mean", within an edit distance of a third of its length, or "" if
// none is that close.
std::string ClosestMatch(absl::string_view word, const std::vector<std::string>& candidates);
// Returns ` (did you mean "x"?)` or "".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_ERROR_H_
