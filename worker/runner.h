#ifndef LUTHIER_WORKER_RUNNER_H_
#define LUTHIER_WORKER_RUNNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/study/measurement.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "worker/stop_signal.h"

namespace luthier::worker {

// Reason of failures that are the worker's, not the objective's.
inline constexpr char kWorkerError[] = "WORKER_ERROR";

// A trial to evaluate. Lives until Run and Discard have returned.
struct RunRequest {
  std::string study;  // Id of the study.
  study::StudySpec spec;
  int64_t trial = 0;  // Number within the study.
  int32_t attempt = 1;
  study::Parameters parameters;
  // The derivative that the search can use.
  study::GradientUse gradient = study::GradientUse::kFull;
  // kDirectional: along this (study::Gradient::direction); else empty.
  std::vector<double> direction;
  // Accuracy that the search needs of inner problem and gradient (study::Provenance::tolerance).
  std::optional<double> tolerance;
  // For the objective's own randomness: the same for every attempt of a trial, below 2^31.
  uint32_t seed = 0;
  // The checkpoint that an earlier attempt reported; empty: start afresh.
  std::string resume_checkpoint;
  // The step that it was reported at.
  int64_t resume_step = 0;
  // The step of the learning curve to pause at: its measurement, a checkpoint, kPaused. 0: run to the end.
  int64_t target_step = 0;
  // The earlier trial of the study from whose model training is to start; 0: from zero.
  int64_t warm_start = 0;
  // The slot of the worker that runs it, from 0. No two runs have the same one at once.
  int slot = 0;
};

// RunRequest::seed of a trial.
uint32_t ObjectiveSeed(uint64_t study_seed, int64_t trial);

enum class RunResult {
  kComplete,  // `measurement` has the study's metric, possibly non-finite.
  kPruned,    // As complete; the objective itself stopped early.
  kPaused,    // `measurement` is that of the target, and `checkpoint`, if any, lets another run go on from there.
  kFailed,    // `failure` says how.
  kStopped,   // It ended because the stop signal asked; only `checkpoint` and `output_tail` mean something.
};

struct RunOutcome {
  RunResult result = RunResult::kFailed;
  study::Measurement measurement;
  study::Failure failure;
  std::string checkpoint;   // The newest reference, or empty.
  std::string output_tail;  // Valid UTF-8, at most 4 KiB.
};

RunOutcome Failed(study::FailureKind kind, absl::string_view reason, absl::string_view message);

// The runtime as a run sees it. Never blocks on the network.
class RunSink {
 public:
  virtual ~RunSink() = default;
  // End the run soon once it is requested, and return kStopped.
  virtual const StopSignal& stop() const = 0;
  // A point of the learning curve; `checkpoint` may be empty. Called by the thread that called Run.
  virtual void Report(study::Measurement measurement, std::string checkpoint) = 0;
  // A checkpoint alone.
  virtual void Checkpoint(std::string checkpoint) = 0;
  // Said once it is known: the last step that the checkpoint holds which the run goes on from, 0 for none. `why`: why
  // one that was given is not used; empty: it is.
  virtual void Started(int64_t step, const std::string& why) = 0;
};

// Runs trials: one way to evaluate the objectives of studies. Run is called by several threads at once. Implementations
// keep no reference to the sink.
class Runner {
 public:
  virtual ~Runner() = default;
  // For a worker of one study, before it takes a trial: whether any can be evaluated here. Loads what all of them
  // share. An error says what is missing.
  virtual absl::Status Open(const study::StudySpec& /*spec*/) { return absl::OkStatus(); }
  // Blocks until the result is there or the stop signal was obeyed.
  virtual RunOutcome Run(const RunRequest& request, RunSink* sink) = 0;
  // The trial is final: whatever Run kept for a later attempt may go.
  virtual void Discard(const RunRequest& /*request*/) {}
  // The same for all trials of a study: none of them will ever be run again.
  virtual void DiscardStudy(const std::string& /*study*/) {}
  // The process is about to end without waiting: take down whatever would outlive it. Any thread.
  virtual void Abort() {}
};

// Cuts to the last `limit` bytes at a character boundary; control characters but newline and tab, and bytes that are no
// UTF-8, become '?'; a carriage return becomes a newline.
std::string PrintableTail(absl::string_view text, size_t limit);
inline constexpr size_t kTailBytes = 4096;

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNNER_H_
