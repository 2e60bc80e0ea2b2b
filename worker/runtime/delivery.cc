#include "worker/runtime/delivery.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/retry_advice.h"
#include "lib/study/gradients.h"
#include "worker/runtime/log_text.h"

namespace luthier::worker {
namespace {

// Number of times that a result is sent again after errors other than outages and overload of the server.
constexpr int kMaxOddErrors = 20;
// The same number for what may be lost: points of the curve, and leases that expire anyway.
constexpr int kMaxOddErrorsOfLess = 3;

// True if the same call will never be accepted.
bool IsSettled(base::RetryAdvice advice) {
  return advice == base::RetryAdvice::kRefused || advice == base::RetryAdvice::kMend ||
         advice == base::RetryAdvice::kAskForLess;
}

}  // namespace

absl::Status Delivery::Repeat(int max_odd, const std::function<absl::Status()>& call) {
  const absl::Duration start = clock_->Monotonic();
  int odd = 0;
  backoff_.Reset();
  for (;;) {
    const uint64_t hurry = contact_->hurry();
    absl::Status status = call();
    if (status.ok()) return status;
    const base::RetryAdvice advice = base::AdviceFor(status);
    if (IsSettled(advice) || (!base::PassesWithTime(advice) && ++odd > max_odd)) return status;
    if (!contact_->WaitToRetry(start, hurry, backoff_.Next(status))) return status;
  }
}

void Delivery::Keep(const FinalResult& result, absl::Status (Spool::*how)(const FinalResult&) const) {
  if (spool_ == nullptr) return;
  if (const absl::Status kept = (spool_->*how)(result); !kept.ok()) {
    base::LogWarning("spool_failed", {{"trial", TrialText(result.study, result.trial)}, {"error", ErrorText(kept)}});
  }
}

bool Delivery::End(Attempt* attempt, RunOutcome outcome) {
  Attempt::Ending ending = attempt->Settle(std::move(outcome));
  if (ending.stop != StopReason::kNone) return EndStopped(attempt, ending);
  // Written before anything else, so that a restarted worker can send it whatever happens from here on.
  Keep(ending.result, &Spool::Write);
  Flush(attempt);
  return SendDurably(std::move(ending.result));
}

bool Delivery::EndStopped(Attempt* attempt, const Attempt::Ending& ending) {
  if (ending.stop == StopReason::kCancelled || ending.stop == StopReason::kLost) {
    return ending.stop == StopReason::kCancelled;
  }
  // A trial that is to finish without a value of its own ends with the last one that the coordinator has.
  Flush(attempt);
  if (ending.result.checkpoint.empty()) {
    GiveBack(attempt->lease());  // Without news of its own the attempt passes on what it was given.
  } else {
    Release(attempt->lease(), ending.result.checkpoint, *ending.result.checkpoint_step);
  }
  return ending.stop == StopReason::kFinish;
}

absl::Status Delivery::Send(Attempt* attempt, const ReportRequest& report) {
  const absl::StatusOr<study::Directive> answer = api_->Report(report);
  contact_->Note(answer.status());
  return attempt->ReportSent(report, answer);
}

void Delivery::Flush(Attempt* attempt) {
  attempt->LeaveReporter();
  // An error that waiting does not mend costs the curve, not the result.
  Repeat(kMaxOddErrorsOfLess, [&] {
    while (const std::optional<ReportRequest> report = attempt->NextReport()) {
      if (absl::Status sent = Send(attempt, *report); !sent.ok()) return sent;
    }
    return absl::OkStatus();
  }).IgnoreError();
}

void Delivery::Release(const Lease& lease, const std::string& checkpoint, int64_t checkpoint_step) {
  const RunRequest& run = lease.run;
  const absl::Status released = Repeat(kMaxOddErrorsOfLess, [&] {
    const absl::Status status = api_->Release(run.study, run.trial, lease.token, checkpoint, checkpoint_step).status();
    contact_->Note(status);
    return status;
  });
  const std::string trial = TrialText(run.study, run.trial);
  if (released.ok()) return base::LogInfo("trial_released", {{"trial", trial}, {"checkpoint", checkpoint}});
  // This does no harm: the lease expires.
  base::LogWarning("release_failed", {{"trial", trial}, {"error", ErrorText(released)}});
}

void Delivery::SendLeftovers() {
  if (spool_ == nullptr) return;
  for (FinalResult& result : spool_->Leftovers()) {
    base::LogInfo("spool_replay", {{"trial", TrialText(result.study, result.trial)}});
    SendDurably(std::move(result));
    if (contact_->draining()) return;
  }
}

bool Delivery::SendDurably(FinalResult result) {
  const std::string trial = TrialText(result.study, result.trial);
  for (;;) {
    absl::Status error;
    const Verdict verdict = Send(result, &error);
    if (verdict == Verdict::kKept) {
      base::LogWarning("result_kept", {{"trial", trial}, {"error", ErrorText(error)}});
      return false;
    }
    if (verdict != Verdict::kMalformed) {
      if (spool_ != nullptr) spool_->Remove(result);
      return verdict == Verdict::kAccepted || base::GetReason(error) == base::reason::kTrialFinal;
    }
    base::LogWarning("result_malformed", {{"trial", trial}, {"error", ErrorText(error)}});
    if (result.failed) {
      if (spool_ != nullptr) spool_->SetAside(result);
      return false;
    }
    if (result.measurement.gradient || !result.measurement.gradients.empty()) {
      study::ClearGradients(&result.measurement);  // The value may still be good.
    } else {
      result.failed = true;
      result.failure = {study::FailureKind::kConfig, study::failure::kBadOutput,
                        PrintableTail(ErrorText(error), kTailBytes)};
    }
    Keep(result, &Spool::Write);
  }
}

Delivery::Verdict Delivery::Send(const FinalResult& result, absl::Status* error) {
  const std::string trial = TrialText(result.study, result.trial);
  FinishAnswer reply;
  bool again = false;
  *error = Repeat(kMaxOddErrors, [&] {
    if (again) Keep(result, &Spool::Keep);
    again = true;
    absl::StatusOr<FinishAnswer> answer = api_->Finish(result);
    contact_->Note(answer.status());
    if (!answer.ok()) return answer.status();
    reply = *std::move(answer);
    return absl::OkStatus();
  });
  if (error->ok()) {
    for (const std::string& warning : reply.warnings) {
      base::LogWarning("result_warning", {{"trial", trial}, {"warning", warning}});
    }
    base::LogInfo("result_accepted", {{"trial", trial}, {"state", std::string(study::TrialStateName(reply.state))}});
    // A trial that is tried again still needs the objective's data.
    return study::IsFinal(reply.state) ? Verdict::kAccepted : Verdict::kRefused;
  }
  const base::RetryAdvice advice = base::AdviceFor(*error);
  if (advice != base::RetryAdvice::kRefused) return IsSettled(advice) ? Verdict::kMalformed : Verdict::kKept;
  base::LogWarning("result_discarded",
                   {{"trial", trial}, {"reason", base::GetReason(*error)}, {"error", ErrorText(*error)}});
  return Verdict::kRefused;
}

}  // namespace luthier::worker
