#ifndef LUTHIER_WORKER_RUNTIME_ATTEMPT_H_
#define LUTHIER_WORKER_RUNTIME_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/study/directive.h"
#include "lib/study/measurement.h"
#include "worker/run/coordinator_api.h"
#include "worker/run/runner.h"
#include "worker/run/stop_signal.h"
#include "worker/runtime/log_text.h"
#include "worker/runtime/report_queue.h"
#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// One attempt at a trial: a lease, what its run has reported, and what the coordinator said to that. Three sides use it
// at once: the objective reports (RunSink), whoever sends takes the points from it, and the heartbeat passes on
// directives. Thread-safe.
class Attempt final : public RunSink {
 public:
  // `clock` must outlive it. `has_points` is called, without a lock, when there is something to send.
  Attempt(Lease lease, WaitClock* clock, std::function<void()> has_points);

  // The run itself, which takes place on the calling thread, in a slot of the worker's; to be called once. What the
  // runner throws becomes a failure of the worker's.
  RunOutcome Run(Runner* runner, int slot);
  // The objective reports through these; see RunSink.
  const StopSignal& stop() const override { return stop_; }
  void Report(study::Measurement measurement, std::string checkpoint) override;
  void Checkpoint(std::string checkpoint) override;
  void Started(int64_t step, const std::string& why) override;

  const Lease& lease() const { return lease_; }
  std::string text() const { return TrialText(lease_.run.study, lease_.run.trial); }

  // Does as the coordinator says.
  void Follow(study::Directive directive);
  // The worker shuts down.
  void Drain() { stop_.Request(StopReason::kDrain); }

  // Takes the oldest points to send, for ReportSent; nothing if there are none, or they are on their way.
  std::optional<ReportRequest> NextReport();
  // The same for the reporter, which takes none after LeaveReporter.
  std::optional<ReportRequest> NextReportOfReporter();
  // Takes the answer to a report. OK if it is settled, also if it was refused for good.
  absl::Status ReportSent(const ReportRequest& report, const absl::StatusOr<study::Directive>& answer);
  // From here on the reporter leaves the points alone. Returns when no report of its is on its way.
  void LeaveReporter();

  struct Ending {
    // kNone: `result` is the trial's. Else the run stopped for this reason, and only the checkpoint has a meaning.
    StopReason stop = StopReason::kNone;
    FinalResult result;
  };
  // Makes an ending of what the run came to, by what was asked of it meanwhile.
  Ending Settle(RunOutcome outcome);

 private:
  // Returns the last step that this attempt is known to have done: one that it reported, or went on from.
  int64_t LastStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double ElapsedSeconds() const { return absl::ToDoubleSeconds(clock_->Monotonic() - start_); }
  // Adds a note for people at the end of the output; the first few different ones are kept.
  void Note(std::string note) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a gradient that the service would refuse, and ends the run if all will be like it.
  void CheckGradient(study::Measurement* measurement) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Judges a report that the service did not take. OK if it is settled.
  absl::Status ReportRefused(size_t points, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<ReportRequest> TakeReport() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives a run that stopped the outcome that it was stopped for. Returns why it stopped, if there is none.
  StopReason JudgeStop(RunOutcome* outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes what the owner of the objective may want to mend.
  void NoteOddities(const RunOutcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Lease lease_;
  WaitClock* const clock_;
  const std::function<void()> has_points_;
  const absl::Duration start_;
  StopSignal stop_;

  mutable base::Mutex mutex_;
  base::CondVar sent_;  // Signalled when a report is no longer on its way.
  ReportQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;   // A report is on its way.
  bool flushing_ ABSL_GUARDED_BY(mutex_) = false;  // The slot's thread sends the remaining points.
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::optional<study::Failure> rejected_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> start_step_ ABSL_GUARDED_BY(mutex_);
  // Newest point of the curve, without its gradient.
  std::optional<study::Measurement> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_ATTEMPT_H_
