#ifndef LUTHIER_WORKER_RUN_RUNNER_H_
#define LUTHIER_WORKER_RUN_RUNNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/study/measurement.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "worker/run/stop_signal.h"

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
  // Derivative that the search can use.
  study::GradientUse gradient = study::GradientUse::kFull;
  // Direction of kDirectional (study::Gradient::direction); else empty.
  std::vector<double> direction;
  // Accuracy that the search needs of inner problem and gradient (study::Provenance::tolerance).
  std::optional<double> tolerance;
  // For the objective's own randomness: the same for every attempt of a trial, below 2^31.
  uint32_t seed = 0;
  // The checkpoint that an earlier attempt reported; empty: start afresh.
  std::string resume_checkpoint;
  // The step at which it was reported.
  int64_t resume_step = 0;
  // Step of the learning curve at which to pause, with its measurement, a checkpoint and kPaused. 0: run to the end.
  int64_t target_step = 0;
  // Earlier trial of the study from whose model training is to start; 0: from zero.
  int64_t warm_start = 0;
  // Slot of the worker that runs it, from 0. No two runs have the same one at once.
  int slot = 0;
};

// Returns RunRequest::seed of a trial.
uint32_t ObjectiveSeed(uint64_t study_seed, int64_t trial);

enum class RunResult {
  kComplete,  // `measurement` has the study's metric, possibly non-finite.
  kPruned,    // As complete; the objective itself stopped early.
  kPaused,    // `measurement` is that of the target, and `checkpoint`, if any, lets another run go on from there.
  kFailed,    // `failure` says how.
  kStopped,   // The run ended because of the stop signal; only `checkpoint` and `output_tail` have a meaning.
};

struct RunOutcome {
  RunResult result = RunResult::kFailed;
  study::Measurement measurement;
  study::Failure failure;
  std::string checkpoint;   // The newest reference, or empty.
  std::string output_tail;  // Valid UTF-8, at most 4 KiB.
};

RunOutcome Failed(study::FailureKind kind, absl::string_view reason, absl::string_view message);

// The runtime's side of a run. Never blocks on the network.
class RunSink {
 public:
  virtual ~RunSink() = default;
  // When a stop is requested, end the run soon and return kStopped.
  virtual const StopSignal& stop() const = 0;
  // Adds a point of the learning curve; `checkpoint` may be empty. Called by the thread that called Run.
  virtual void Report(study::Measurement measurement, std::string checkpoint) = 0;
  // Reports a checkpoint alone.
  virtual void Checkpoint(std::string checkpoint) = 0;
  // Reports, once it is known, the last step of the checkpoint that the run goes on from, 0 for none. `why` says why a
  // checkpoint that was given is not used; empty: it is used.
  virtual void Started(int64_t step, const std::string& why) = 0;
};

// Runs trials: one way to evaluate the objectives of studies. Run is called by several threads at once. Implementations
// keep no reference to the sink.
class Runner {
 public:
  virtual ~Runner() = default;
  // For a worker of one study, before it takes a trial: checks that its trials can be evaluated here, and loads what
  // all of them share. An error says what is missing.
  virtual absl::Status Open(const study::StudySpec& /*spec*/) { return absl::OkStatus(); }
  // Blocks until the result is there or the run has stopped.
  virtual RunOutcome Run(const RunRequest& request, RunSink* sink) = 0;
  // The trial is final: data that Run kept for a later attempt may be removed.
  virtual void Discard(const RunRequest& /*request*/) {}
  // The same for all trials of a study, none of which will ever be run again.
  virtual void DiscardStudy(const std::string& /*study*/) {}
  // The process is about to end without waiting: end everything that would outlive it. Any thread.
  virtual void Abort() {}
};

// Cuts to the last `limit` bytes at a character boundary. Control characters but newline and tab, and bytes that are
// not UTF-8, become '?'; a carriage return becomes a newline.
std::string PrintableTail(absl::string_view text, size_t limit);
inline constexpr size_t kTailBytes = 4096;

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUN_RUNNER_H_
