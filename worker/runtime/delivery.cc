// The end of a run: delivery of its points and its result.
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/retry_advice.h"
#include "worker/active_run.h"
#include "worker/runtime.h"

namespace luthier::worker {
namespace {

// Number of times that a result is sent again after errors other than outages and overload of the server.
constexpr int kMaxOddErrors = 20;
// The same number for what may be lost: points of the curve, and leases that expire anyway.
constexpr int kMaxOddErrorsOfLess = 3;

// True if the measurement can be the result of a trial that ends early.
bool HasValue(const study::Measurement& m, const std::string& metric) {
  const auto value = m.metrics.find(metric);
  return value != m.metrics.end() && std::isfinite(value->second);
}

// True if the same call will never be accepted.
bool IsSettled(base::RetryAdvice advice) {
  return advice == base::RetryAdvice::kRefused || advice == base::RetryAdvice::kMend ||
         advice == base::RetryAdvice::kAskForLess;
}

}  // namespace

void Runtime::ActiveRun::Report(study::Measurement measurement, std::string checkpoint) {
  if (!measurement.elapsed_seconds) measurement.elapsed_seconds = ElapsedSeconds();
  const int dimension = static_cast<int>(request_.spec.space.differentiable().size());
  const base::MutexLock lock(&runtime_->mutex_);
  if (measurement.gradient) {
    const study::Gradient& gradient = *measurement.gradient;
    const size_t length = gradient.full() ? gradient.values.size() : gradient.direction.size();
    if (const absl::Status valid = study::ValidateGradient(gradient, dimension); !valid.ok()) {
      Note(absl::StrCat("step ", measurement.step, ": the gradient is left out: ", Text(valid)));
      if (length != static_cast<size_t>(dimension) && !rejected_) {
        // The program is wrong, and at every point: it fails in the first minute rather than after hours.
        rejected_ = study::Failure{study::FailureKind::kConfig, study::failure::kBadOutput, Text(valid)};
        stop_.Request(StopReason::kRejected);
      }
      measurement.gradient.reset();
    }
  }
  if (!checkpoint.empty()) queue_.SetCheckpoint(std::move(checkpoint), measurement.step);
  const int64_t step = measurement.step;
  newest_ = measurement;
  newest_->gradient.reset();
  switch (queue_.Add(std::move(measurement))) {
    case ReportQueue::Added::kYes:
      runtime_->changed_.SignalAll();
      break;
    case ReportQueue::Added::kRepeatedStep:
      Note(absl::StrCat("step ", step, " was reported before; the first report counts"));
      break;
    case ReportQueue::Added::kTooMany:
      Note(absl::StrCat("only the first ", ReportQueue::kMaxPoints, " points are kept"));
      break;
  }
}

void Runtime::ActiveRun::Started(int64_t step, const std::string& why) {
  const bool restarted = !why.empty() && !lease_.resume_checkpoint.empty();
  if (restarted) {
    base::LogWarning("trial_restarted", {{"trial", text()}, {"checkpoint", lease_.resume_checkpoint}, {"reason", why}});
  }
  const base::MutexLock lock(&runtime_->mutex_);
  start_step_ = step;
  if (restarted) {
    Note(absl::StrCat("began afresh: the checkpoint ", lease_.resume_checkpoint, " was not used: ", why));
  }
}

void Runtime::FlushReports(ActiveRun* run, base::Backoff* backoff) {
  const absl::Duration start = clock_->Monotonic();
  int odd = 0;
  backoff->Reset();
  for (;;) {
    absl::Status status;
    uint64_t hurry = 0;
    {
      const base::MutexLock lock(&mutex_);
      run->flushing_ = true;
      while (run->sending_) clock_->WaitUntil(&mutex_, &changed_, absl::InfiniteDuration());
      if (run->queue_.empty()) return;
      hurry = hurry_;
      status = SendReports(run);
    }
    if (status.ok()) continue;
    // An error that waiting does not mend costs the curve, not the result.
    if (!base::PassesWithTime(base::AdviceFor(status)) && ++odd > kMaxOddErrorsOfLess) return;
    if (!WaitToRetry(start, hurry, backoff->Next(status))) return;
  }
}

FinalResult Runtime::Settle(ActiveRun* run, RunOutcome* outcome) {
  const Lease& lease = run->lease();
  FinalResult result;
  const base::MutexLock lock(&mutex_);
  if (!outcome->checkpoint.empty() && outcome->checkpoint != run->queue_.checkpoint()) {
    run->queue_.SetCheckpoint(outcome->checkpoint, std::max(outcome->measurement.step, run->LastStep()));
  }
  result.checkpoint = run->queue_.checkpoint();
  if (!result.checkpoint.empty()) result.checkpoint_step = run->queue_.checkpoint_step();
  result.start_step = run->start_step_;
  const bool asked_to_pause = outcome->result == RunResult::kStopped && run->stop().reason() == StopReason::kPause;
  if (asked_to_pause && run->newest_) {  // It does not look at its target, but stops when it is told to.
    outcome->result = RunResult::kPaused;
    outcome->measurement = *run->newest_;
  }
  const bool asked_to_finish = outcome->result == RunResult::kStopped && run->stop().reason() == StopReason::kFinish;
  if (asked_to_finish && run->newest_ && HasValue(*run->newest_, lease.spec.metric.name)) {
    outcome->result = RunResult::kPruned;
    outcome->measurement = *run->newest_;
  }
  if (outcome->result == RunResult::kPaused && result.checkpoint.empty()) {
    run->Note("paused without a checkpoint: the trial will have to begin afresh");
    base::LogWarning("paused_without_checkpoint", {{"trial", run->text()}});
  }
  const bool silent = outcome->result == RunResult::kComplete && outcome->measurement.step == 0 && !run->newest_;
  if (silent && lease.target_step > 0) {
    run->Note(absl::StrCat("was to pause at step ", lease.target_step, " and reported none"));
    base::LogWarning("target_missed", {{"trial", run->text()}, {"target", absl::StrCat(lease.target_step)}});
  }
  std::string tail = outcome->output_tail;
  for (const std::string& note : run->notes_) absl::StrAppend(&tail, "\n[luthier-worker] ", note);
  result.output_tail = PrintableTail(tail, kTailBytes);
  if (run->rejected_) {
    outcome->result = RunResult::kFailed;
    outcome->failure = *run->rejected_;
  }
  return result;
}

std::optional<bool> Runtime::EndStopped(ActiveRun* run, const FinalResult& result, base::Backoff* backoff) {
  const StopReason reason = run->stop().reason();
  base::LogInfo("trial_end", {{"trial", run->text()}, {"result", absl::StrCat("stopped_", StopReasonName(reason))}});
  if (reason == StopReason::kCancelled) runner_->Discard(run->request());
  if (reason == StopReason::kCancelled || reason == StopReason::kLost) return reason == StopReason::kCancelled;
  // A trial that is to finish without a value of its own ends with the last one that the coordinator has.
  if (reason != StopReason::kDrain && reason != StopReason::kFinish) return std::nullopt;
  FlushReports(run, backoff);
  // Without news of its own the attempt passes on what it was given.
  const Lease& lease = run->lease();
  const bool news = !result.checkpoint.empty();
  ReturnLease(lease, news ? result.checkpoint : lease.resume_checkpoint,
              news ? *result.checkpoint_step : lease.resume_step, backoff);
  if (reason == StopReason::kFinish) runner_->Discard(run->request());
  return reason == StopReason::kFinish;
}

bool Runtime::Execute(ActiveRun* run, base::Backoff* backoff) {
  const Lease& lease = run->lease();
  base::LogInfo("trial_start", {{"trial", run->text()},
                                {"attempt", absl::StrCat(lease.attempt)},
                                {"parameters", study::FormatParameters(lease.trial.parameters)}});
  RunOutcome outcome;
  try {
    outcome = runner_->Run(run->request(), run);
  } catch (const std::exception& e) {  // For instance, out of memory. The other slots go on.
    outcome = Failed(study::FailureKind::kInfra, kWorkerError, e.what());
  }
  FinalResult result = Settle(run, &outcome);
  if (outcome.result == RunResult::kStopped) {
    if (const std::optional<bool> ended = EndStopped(run, result, backoff)) return *ended;
    outcome = Failed(study::FailureKind::kInfra, kWorkerError, "the objective stopped without being asked to");
  }
  result.study = lease.study;
  result.trial = lease.trial.number;
  result.token = lease.token;
  result.failed = outcome.result == RunResult::kFailed;
  if (result.failed) {
    result.failure = outcome.failure;
    result.checkpoint.clear();
    result.checkpoint_step.reset();
  } else {
    result.measurement = outcome.measurement;
    result.pruned = outcome.result == RunResult::kPruned;
    result.paused = outcome.result == RunResult::kPaused;
    if (!result.measurement.elapsed_seconds) result.measurement.elapsed_seconds = run->ElapsedSeconds();
  }
  base::LogInfo("trial_end", {{"trial", run->text()},
                              {"result", result.failed   ? result.failure.reason
                                         : result.pruned ? "pruned"
                                         : result.paused ? "paused"
                                                         : "complete"}});
  // Written before anything else, so that a restarted worker can send it whatever happens from here on.
  if (spool_ != nullptr) {
    if (const absl::Status written = spool_->Write(result); !written.ok()) {
      base::LogWarning("spool_failed", {{"trial", run->text()}, {"error", Text(written)}});
    }
  }
  FlushReports(run, backoff);
  const bool ended = DeliverDurably(std::move(result), backoff);
  if (ended) runner_->Discard(run->request());
  return ended;
}

void Runtime::ReturnLease(const Lease& lease, const std::string& checkpoint, int64_t checkpoint_step,
                          base::Backoff* backoff) {
  const absl::Duration start = clock_->Monotonic();
  int odd = 0;
  backoff->Reset();
  for (;;) {
    const uint64_t hurry = Hurry();
    const absl::StatusOr<FinishReply> reply =
        api_->Release(lease.study, lease.trial.number, lease.token, checkpoint, checkpoint_step);
    NoteContact(reply.status());
    const std::string trial = TrialText(lease.study, lease.trial.number);
    if (reply.ok()) {
      base::LogInfo("trial_released", {{"trial", trial}, {"checkpoint", checkpoint}});
      return;
    }
    const base::RetryAdvice advice = base::AdviceFor(reply.status());
    const bool hopeless = IsSettled(advice) || (!base::PassesWithTime(advice) && ++odd > kMaxOddErrorsOfLess);
    if (hopeless || !WaitToRetry(start, hurry, backoff->Next(reply.status()))) {
      // This does no harm: the lease expires.
      base::LogWarning("release_failed", {{"trial", trial}, {"error", Text(reply.status())}});
      return;
    }
  }
}

void Runtime::DeliverLeftovers() {
  if (spool_ == nullptr) return;
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 4));
  for (FinalResult& result : spool_->Leftovers()) {
    base::LogInfo("spool_replay", {{"trial", TrialText(result.study, result.trial)}});
    DeliverDurably(std::move(result), &backoff);
    const base::MutexLock lock(&mutex_);
    if (draining_) return;
  }
}

bool Runtime::DeliverDurably(FinalResult result, base::Backoff* backoff) {
  const std::string trial = TrialText(result.study, result.trial);
  for (;;) {
    absl::Status error;
    const Delivery delivery = Deliver(result, backoff, &error);
    if (delivery == Delivery::kKept) {
      base::LogWarning("result_kept", {{"trial", trial}, {"error", Text(error)}});
      return false;
    }
    if (delivery != Delivery::kMalformed) {
      if (spool_ != nullptr) spool_->Remove(result);
      return delivery == Delivery::kAccepted || base::GetReason(error) == base::reason::kTrialFinal;
    }
    base::LogWarning("result_malformed", {{"trial", trial}, {"error", Text(error)}});
    if (result.failed) {
      if (spool_ != nullptr) spool_->SetAside(result);
      return false;
    }
    if (result.measurement.gradient) {
      result.measurement.gradient.reset();  // The value may still be good.
    } else {
      result.failed = true;
      result.failure = {study::FailureKind::kConfig, study::failure::kBadOutput,
                        PrintableTail(Text(error), kTailBytes)};
    }
    if (spool_ != nullptr && !spool_->Write(result).ok()) base::LogWarning("spool_failed", {{"trial", trial}});
  }
}

Runtime::Delivery Runtime::Deliver(const FinalResult& result, base::Backoff* backoff, absl::Status* error) {
  const absl::Duration start = clock_->Monotonic();
  const std::string trial = TrialText(result.study, result.trial);
  int odd = 0;
  backoff->Reset();
  for (;;) {
    const uint64_t hurry = Hurry();
    const absl::StatusOr<FinishReply> reply = api_->Finish(result);
    NoteContact(reply.status());
    if (reply.ok()) {
      for (const std::string& warning : reply->warnings) {
        base::LogWarning("result_warning", {{"trial", trial}, {"warning", warning}});
      }
      *error = absl::OkStatus();
      base::LogInfo("result_accepted", {{"trial", trial}, {"state", std::string(study::TrialStateName(reply->state))}});
      // A trial that is tried again still needs the objective's data.
      return study::IsFinal(reply->state) ? Delivery::kAccepted : Delivery::kRefused;
    }
    *error = reply.status();
    const base::RetryAdvice advice = base::AdviceFor(*error);
    if (advice == base::RetryAdvice::kRefused) {
      base::LogWarning("result_discarded",
                       {{"trial", trial}, {"reason", base::GetReason(*error)}, {"error", Text(*error)}});
      return Delivery::kRefused;
    }
    if (IsSettled(advice)) return Delivery::kMalformed;
    if (!base::PassesWithTime(advice) && ++odd > kMaxOddErrors) return Delivery::kKept;
    if (!WaitToRetry(start, hurry, backoff->Next(*error))) return Delivery::kKept;
    if (spool_ == nullptr) continue;
    if (const absl::Status kept = spool_->Keep(result); !kept.ok()) {
      base::LogWarning("spool_failed", {{"trial", trial}, {"error", Text(kept)}});
    }
  }
}

}  // namespace luthier::worker
