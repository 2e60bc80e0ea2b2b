#include "worker/runtime/asker.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/retry_advice.h"
#include "worker/runtime/log_text.h"

namespace luthier::worker {
namespace {

constexpr absl::Duration kShortestAsk = absl::Milliseconds(200);  // Shortest time between two asks without a trial.
constexpr absl::Duration kLongestAsk = absl::Minutes(5);
constexpr absl::Duration kRecallWait = absl::Milliseconds(500);
constexpr absl::Duration kSpoolRetry = absl::Seconds(5);  // Time between tries while results could not be kept.

// True for errors that waiting does not mend.
bool EndsAsking(const absl::Status& status) {
  if (base::GetReason(status) == base::reason::kRequestIdReused) return false;  // The next request has another id.
  const base::RetryAdvice advice = base::AdviceFor(status);
  return advice == base::RetryAdvice::kMend || advice == base::RetryAdvice::kForbidden;
}

Asker::Answer Never(absl::Status error) {
  return {{}, absl::InfiniteDuration(), std::move(error), false};
}

Asker::Answer Again(absl::Duration next, bool nothing = false) {
  return {{}, next, absl::OkStatus(), nothing};
}

}  // namespace

Asker::Asker(const RuntimeOptions* options, CoordinatorApi* api, Runner* runner, const Spool* spool, Contact* contact,
             WaitClock* clock)
    : options_(*options),
      api_(api),
      runner_(runner),
      spool_(spool),
      contact_(contact),
      clock_(clock),
      backoff_(base::RandomStream(options_.seed, "backoff", 0)),
      open_(options_.study.empty()) {}

Asker::Answer Asker::Ask(int count, absl::Duration longest_wait) {
  if (!CanKeepResults()) return Again(clock_->Monotonic() + kSpoolRetry);
  return open_ ? Suggest(count, longest_wait) : OpenStudy();
}

bool Asker::CanKeepResults() {
  const absl::Status ready = spool_ == nullptr ? absl::OkStatus() : spool_->Ready();
  if (!ready.ok() && !spool_failed_) {
    base::LogError("spool_unusable", {{"error", ErrorText(ready)}, {"effect", "no more trials are taken until it is"}});
  }
  if (ready.ok() && spool_failed_) base::LogInfo("spool_usable_again");
  spool_failed_ = !ready.ok();
  return ready.ok();
}

Asker::Answer Asker::OpenStudy() {
  const absl::StatusOr<study::StudySpec> spec = api_->GetSpec(options_.study);
  if (!spec.ok() && !absl::IsFailedPrecondition(spec.status())) return AfterError(spec.status());
  contact_->Note(absl::OkStatus());
  backoff_.Reset();
  not_found_logged_ = false;
  const absl::Status opened = spec.ok() ? runner_->Open(*spec) : spec.status();
  open_ = opened.ok();
  if (open_) return Again(absl::ZeroDuration());
  base::LogError("study_not_opened", {{"study", options_.study}, {"error", ErrorText(opened)}});
  return Never(absl::FailedPreconditionError(
      absl::StrCat("study ", base::Quote(options_.study), " can't be evaluated by this worker: ", ErrorText(opened))));
}

Asker::Answer Asker::AfterError(const absl::Status& status) {
  if (EndsAsking(status)) {
    base::LogError("ask_refused", {{"code", absl::StatusCodeToString(status.code())}, {"error", ErrorText(status)}});
    return Never(status);
  }
  const bool not_found = absl::IsNotFound(status);
  if (not_found) {  // The study may be created in a moment.
    if (!not_found_logged_) {
      base::LogWarning("study_not_found", {{"study", options_.study}, {"error", ErrorText(status)}});
    }
    not_found_logged_ = true;
  } else {
    contact_->Note(status);
  }
  return Again(clock_->Monotonic() + backoff_.Next(status), not_found);
}

Asker::Answer Asker::Suggest(int count, absl::Duration longest_wait) {
  // A repetition is the same request, count included: meanwhile slots may have become free, but none was taken.
  if (settled_) request_ = {options_.study, options_.worker, count, NewRequestId()};
  request_.longest_wait = longest_wait;
  absl::StatusOr<SuggestAnswer> reply = api_->Suggest(request_);
  const absl::Duration now = clock_->Monotonic();
  settled_ = reply.ok() || !base::OutcomeUnknown(base::AdviceFor(reply.status()));
  // A long poll without a trial, as it seems; a dead connection is UNAVAILABLE.
  if (absl::IsDeadlineExceeded(reply.status())) return Again(now + kShortestAsk);
  if (!reply.ok()) return AfterError(reply.status());
  contact_->Note(absl::OkStatus());
  backoff_.Reset();
  not_found_logged_ = false;
  if (!reply->leases.empty()) return {std::move(reply->leases), absl::ZeroDuration(), absl::OkStatus(), false};
  if (reply->study_done && options_.exit_when_done) {
    base::LogInfo("study_done", {{"study", options_.study}});
    runner_->DiscardStudy(options_.study);
    return Never(absl::OkStatus());
  }
  return Again(now + std::clamp(reply->retry_after, kShortestAsk, kLongestAsk), /*nothing=*/true);
}

std::vector<Lease> Asker::Recall() {
  if (settled_) return {};
  settled_ = true;
  request_.last = true;
  request_.longest_wait = kRecallWait;
  absl::StatusOr<SuggestAnswer> reply = api_->Suggest(request_);
  return reply.ok() ? std::move(reply->leases) : std::vector<Lease>();  // Leases that nobody gives back expire.
}

std::string Asker::NewRequestId() {
  base::RandomStream random(options_.seed, "request_id", requests_++);
  const uint64_t high = random.NextU64(), low = random.NextU64();
  // A version 4 UUID.
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFF,
                         0x8000 | ((low >> 48) & 0x3FFF), low & 0xFFFFFFFFFFFF);
}

}  // namespace luthier::worker
