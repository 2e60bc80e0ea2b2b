#ifndef LUTHIER_WORKER_ACTIVE_RUN_H_
#define LUTHIER_WORKER_ACTIVE_RUN_H_

// Inside of the runtime: included by runtime.cc and delivery.cc only.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/runtime.h"

namespace luthier::worker {

inline std::string Text(const absl::Status& status) {
  return std::string(status.message());
}
inline std::string TrialText(const std::string& study, int64_t trial) {
  return absl::StrCat(study, "/", trial);
}

// A lease and the run that uses it. The runtime's mutex guards what the objective's thread shares with others.
class Runtime::ActiveRun final : public RunSink {
 public:
  ActiveRun(Runtime* runtime, Lease lease) : runtime_(runtime), lease_(std::move(lease)) {
    request_.study = lease_.study;
    request_.spec = lease_.spec;
    request_.trial = lease_.trial.number;
    request_.attempt = lease_.attempt;
    request_.parameters = lease_.trial.parameters;
    request_.gradient = lease_.gradient;
    if (lease_.gradient == study::GradientUse::kDirectional) request_.direction = lease_.trial.provenance.direction;
    request_.tolerance = lease_.trial.provenance.tolerance;
    request_.seed = ObjectiveSeed(lease_.spec.seed, lease_.trial.number);
    request_.resume_checkpoint = lease_.resume_checkpoint;
    request_.resume_step = lease_.resume_step;
    request_.target_step = lease_.target_step;
    request_.warm_start = lease_.trial.provenance.warm_start;
    start_ = runtime_->clock_->Monotonic();
  }

  const StopSignal& stop() const override { return stop_; }
  void Report(study::Measurement measurement, std::string checkpoint) override;
  void Checkpoint(std::string checkpoint) override {
    const base::MutexLock lock(&runtime_->mutex_);
    queue_.SetCheckpoint(std::move(checkpoint), LastStep());
  }
  void Started(int64_t step, const std::string& why) override;

  const Lease& lease() const { return lease_; }
  const RunRequest& request() const { return request_; }
  StopSignal& stop_signal() { return stop_; }
  // To be called before the run begins.
  void SetSlot(int slot) { request_.slot = slot; }
  std::string text() const { return TrialText(lease_.study, lease_.trial.number); }
  // Returns the last step that this attempt is known to have done: one that it reported, or went on from.
  int64_t LastStep() const {
    if (newest_) return newest_->step;
    return start_step_.value_or(lease_.resume_step);
  }
  // Returns the seconds since the run began.
  double ElapsedSeconds() const { return absl::ToDoubleSeconds(runtime_->clock_->Monotonic() - start_); }
  // Adds a note for people at the end of the output; the first few different ones are kept.
  void Note(std::string note) {
    constexpr size_t kMaxNotes = 10;
    if (notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), note) == notes_.end()) {
      notes_.push_back(std::move(note));
    }
  }

  // Guarded by the runtime's mutex.
  ReportQueue queue_;
  bool sending_ = false;   // A batch is being sent.
  bool flushing_ = false;  // The slot's thread sends the remaining points, and the reporter does not.
  std::vector<std::string> notes_;
  std::optional<study::Failure> rejected_;
  std::optional<int64_t> start_step_;
  std::optional<study::Measurement> newest_;  // Newest point of the curve, without its gradient.

 private:
  Runtime* const runtime_;
  const Lease lease_;
  RunRequest request_;
  StopSignal stop_;
  absl::Duration start_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_ACTIVE_RUN_H_
