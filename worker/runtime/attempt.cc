#include "worker/runtime/attempt.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/retry_advice.h"
#include "lib/study/gradients.h"

namespace luthier::worker {
namespace {

// Returns the stop that a directive asks for; kNone: the run goes on.
StopReason ReasonOf(study::Directive directive) {
  switch (directive) {
    case study::Directive::kContinue:
      return StopReason::kNone;
    case study::Directive::kStop:
      return StopReason::kCancelled;
    case study::Directive::kLost:
      return StopReason::kLost;
    case study::Directive::kPause:
      return StopReason::kPause;
    case study::Directive::kFinish:
      return StopReason::kFinish;
  }
  return StopReason::kNone;
}

// Returns which of the service's limits was exceeded; "" for other errors.
std::string LimitOf(const absl::Status& status) {
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  if (!detail || detail->reason != base::reason::kLimitExceeded) return "";
  const auto limit = detail->metadata.find("limit");
  return limit == detail->metadata.end() ? "" : limit->second;
}

// True if the measurement can be the result of a trial that ends early.
bool HasValue(const study::Measurement& m, const std::string& metric) {
  const auto value = m.metrics.find(metric);
  return value != m.metrics.end() && std::isfinite(value->second);
}

}  // namespace

Attempt::Attempt(Lease lease, WaitClock* clock, std::function<void()> has_points)
    : lease_(std::move(lease)), clock_(clock), has_points_(std::move(has_points)), start_(clock->Monotonic()) {
  lease_.run.seed = ObjectiveSeed(lease_.run.spec.seed, lease_.run.trial);
}

RunOutcome Attempt::Run(Runner* runner, int slot) {
  lease_.run.slot = slot;
  base::LogInfo("trial_start", {{"trial", text()},
                                {"attempt", absl::StrCat(lease_.run.attempt)},
                                {"parameters", study::FormatParameters(lease_.run.parameters)}});
  try {
    return runner->Run(lease_.run, this);
  } catch (const std::exception& e) {  // For instance, out of memory. The other slots go on.
    return Failed(study::FailureKind::kInfra, kWorkerError, e.what());
  }
}

// --- What the objective says ---

int64_t Attempt::LastStep() const {
  if (newest_) return newest_->step;
  return start_step_.value_or(lease_.run.resume_step);
}

void Attempt::Note(std::string note) {
  constexpr size_t kMaxNotes = 10;
  if (notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), note) == notes_.end()) {
    notes_.push_back(std::move(note));
  }
}

void Attempt::CheckGradient(study::Measurement* measurement) {
  const absl::Status others = study::TakeGradients(lease_.run.spec, lease_.run.parameters, measurement);
  if (!others.ok())
    Note(absl::StrCat("step ", measurement->step, ": some gradients are left out: ", ErrorText(others)));
  if (!measurement->gradient) return;
  const study::Gradient& gradient = *measurement->gradient;
  const auto dimension = static_cast<int>(lease_.run.spec.space.differentiable().size());
  const absl::Status valid = study::ValidateGradient(gradient, dimension);
  if (valid.ok()) return;
  Note(absl::StrCat("step ", measurement->step, ": the gradient is left out: ", ErrorText(valid)));
  const size_t length = gradient.full() ? gradient.values.size() : gradient.direction.size();
  if (length != static_cast<size_t>(dimension) && !rejected_) {
    // The program is wrong, and at every point: it fails in the first minute rather than after hours.
    rejected_ = study::Failure{study::FailureKind::kConfig, study::failure::kBadOutput, ErrorText(valid)};
    stop_.Request(StopReason::kRejected);
  }
  measurement->gradient.reset();
}

void Attempt::Report(study::Measurement measurement, std::string checkpoint) {
  if (!measurement.elapsed_seconds) measurement.elapsed_seconds = ElapsedSeconds();
  {
    const base::MutexLock lock(&mutex_);
    CheckGradient(&measurement);
    if (!checkpoint.empty()) queue_.SetCheckpoint(std::move(checkpoint), measurement.step);
    const int64_t step = measurement.step;
    newest_ = measurement;
    study::ClearGradients(&*newest_);
    switch (queue_.Add(std::move(measurement))) {
      case ReportQueue::Added::kYes:
        break;
      case ReportQueue::Added::kRepeatedStep:
        return Note(absl::StrCat("step ", step, " was reported before; the first report counts"));
      case ReportQueue::Added::kTooMany:
        return Note(absl::StrCat("only the first ", ReportQueue::kMaxPoints, " points are kept"));
    }
  }
  has_points_();
}

void Attempt::Checkpoint(std::string checkpoint) {
  const base::MutexLock lock(&mutex_);
  queue_.SetCheckpoint(std::move(checkpoint), LastStep());
}

void Attempt::Started(int64_t step, const std::string& why) {
  const std::string& given = lease_.run.resume_checkpoint;
  const bool restarted = !why.empty() && !given.empty();
  if (restarted) base::LogWarning("trial_restarted", {{"trial", text()}, {"checkpoint", given}, {"reason", why}});
  const base::MutexLock lock(&mutex_);
  start_step_ = step;
  if (restarted) Note(absl::StrCat("began afresh: the checkpoint ", given, " was not used: ", why));
}

// --- What the coordinator says ---

void Attempt::Follow(study::Directive directive) {
  const StopReason reason = ReasonOf(directive);
  if (reason == StopReason::kNone) return;
  if (!stop_.requested()) {
    if (reason == StopReason::kLost) base::LogInfo("lease_lost", {{"trial", text()}});
    if (reason == StopReason::kCancelled) base::LogInfo("trial_stopped", {{"trial", text()}});
  }
  stop_.Request(reason);
}

std::optional<ReportRequest> Attempt::TakeReport() {
  if (queue_.empty() || sending_) return std::nullopt;
  sending_ = true;
  ReportRequest report;
  report.study = lease_.run.study;
  report.trial = lease_.run.trial;
  report.token = lease_.token;
  report.measurements = queue_.Front();
  report.checkpoint = queue_.checkpoint();
  report.checkpoint_step = queue_.checkpoint_step();
  report.start_step = start_step_;
  return report;
}

std::optional<ReportRequest> Attempt::NextReport() {
  const base::MutexLock lock(&mutex_);
  return TakeReport();
}

std::optional<ReportRequest> Attempt::NextReportOfReporter() {
  const base::MutexLock lock(&mutex_);
  return flushing_ ? std::nullopt : TakeReport();
}

absl::Status Attempt::ReportSent(const ReportRequest& report, const absl::StatusOr<study::Directive>& answer) {
  const base::MutexLock lock(&mutex_);
  sending_ = false;
  sent_.SignalAll();
  if (!answer.ok()) return ReportRefused(report.measurements.size(), answer.status());
  queue_.Pop(report.measurements.size());
  Follow(*answer);
  return absl::OkStatus();
}

absl::Status Attempt::ReportRefused(size_t points, const absl::Status& status) {
  switch (base::AdviceFor(status)) {
    case base::RetryAdvice::kRepeat:
    case base::RetryAdvice::kFewTimes:
    case base::RetryAdvice::kLater:
    case base::RetryAdvice::kForbidden:
    case base::RetryAdvice::kFault:
      return status;
    case base::RetryAdvice::kAskForLess:
    case base::RetryAdvice::kMend:
      base::LogWarning("report_refused", {{"trial", text()}, {"error", ErrorText(status)}});
      if (LimitOf(status) == "gradient_bytes") {
        Note(absl::StrCat("the curve goes on without gradients: ", ErrorText(status)));
        queue_.DropGradients();
        return absl::OkStatus();
      }
      Note(absl::StrCat("points were refused: ", ErrorText(status)));
      // One of several points may be invalid, or all together too large; the curve is not worth finding out which.
      queue_.Pop(points);
      if (base::GetReason(status) == base::reason::kLimitExceeded) queue_.Close();
      return absl::OkStatus();
    case base::RetryAdvice::kRefused:
      break;
  }
  if (base::GetReason(status) == base::reason::kConflictingReport) {
    base::LogWarning("report_refused", {{"trial", text()}, {"error", ErrorText(status)}});
    queue_.Pop(points);
    return absl::OkStatus();
  }
  if (!stop_.requested()) base::LogInfo("lease_lost", {{"trial", text()}, {"error", ErrorText(status)}});
  stop_.Request(StopReason::kLost);
  queue_.Close();
  return absl::OkStatus();
}

void Attempt::LeaveReporter() {
  const base::MutexLock lock(&mutex_);
  flushing_ = true;
  while (sending_) clock_->WaitUntil(&mutex_, &sent_, absl::InfiniteDuration());
}

// --- The end ---

StopReason Attempt::JudgeStop(RunOutcome* outcome) {
  if (outcome->result != RunResult::kStopped) return StopReason::kNone;
  const StopReason reason = stop_.reason();
  const bool pause = reason == StopReason::kPause && newest_;
  if (pause || (reason == StopReason::kFinish && newest_ && HasValue(*newest_, lease_.run.spec.metric.name))) {
    // An objective that does not look at its target still stops when it is told to.
    outcome->result = pause ? RunResult::kPaused : RunResult::kPruned;
    outcome->measurement = *newest_;
    return StopReason::kNone;
  }
  if (rejected_) return StopReason::kNone;
  if (reason != StopReason::kNone && reason != StopReason::kPause) return reason;
  std::string tail = std::move(outcome->output_tail);
  *outcome = Failed(study::FailureKind::kInfra, kWorkerError, "the objective stopped without being asked to");
  outcome->output_tail = std::move(tail);
  return StopReason::kNone;
}

void Attempt::NoteOddities(const RunOutcome& outcome) {
  if (outcome.result == RunResult::kPaused && queue_.checkpoint().empty()) {
    Note("paused without a checkpoint: the trial will have to begin afresh");
    base::LogWarning("paused_without_checkpoint", {{"trial", text()}});
  }
  const bool silent = outcome.result == RunResult::kComplete && outcome.measurement.step == 0 && !newest_;
  if (silent && lease_.run.target_step > 0) {
    Note(absl::StrCat("was to pause at step ", lease_.run.target_step, " and reported none"));
    base::LogWarning("target_missed", {{"trial", text()}, {"target", absl::StrCat(lease_.run.target_step)}});
  }
}

Attempt::Ending Attempt::Settle(RunOutcome outcome) {
  Ending ending;
  FinalResult& result = ending.result;
  const base::MutexLock lock(&mutex_);
  if (!outcome.checkpoint.empty() && outcome.checkpoint != queue_.checkpoint()) {
    queue_.SetCheckpoint(outcome.checkpoint, std::max(outcome.measurement.step, LastStep()));
  }
  ending.stop = JudgeStop(&outcome);
  NoteOddities(outcome);
  if (rejected_) {
    outcome.result = RunResult::kFailed;
    outcome.failure = *rejected_;
  }
  result.study = lease_.run.study;
  result.trial = lease_.run.trial;
  result.token = lease_.token;
  result.start_step = start_step_;
  std::string tail = outcome.output_tail;
  for (const std::string& note : notes_) absl::StrAppend(&tail, "\n[luthier-worker] ", note);
  result.output_tail = PrintableTail(tail, kTailBytes);
  result.failed = outcome.result == RunResult::kFailed;
  if (result.failed) {
    result.failure = outcome.failure;
  } else {
    result.checkpoint = queue_.checkpoint();
    if (!result.checkpoint.empty()) result.checkpoint_step = queue_.checkpoint_step();
    result.measurement = outcome.measurement;
    result.pruned = outcome.result == RunResult::kPruned;
    result.paused = outcome.result == RunResult::kPaused;
    if (!result.measurement.elapsed_seconds) result.measurement.elapsed_seconds = ElapsedSeconds();
  }
  base::LogInfo("trial_end",
                {{"trial", text()},
                 {"result", ending.stop != StopReason::kNone ? absl::StrCat("stopped_", StopReasonName(ending.stop))
                            : result.failed                  ? result.failure.reason
                            : result.pruned                  ? "pruned"
                            : result.paused                  ? "paused"
                                                             : "complete"}});
  return ending;
}

}  // namespace luthier::worker
