#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_RESULTS_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_RESULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/study/study_spec.h"
#include "worker/objectives/output.h"
#include "worker/objectives/patterns.h"
#include "worker/objectives/result_line.h"
#include "worker/run/runner.h"

namespace luthier::worker {

// Understands what a program reports: lines on the descriptor of results, or lines and matches of patterns on standard
// output. Points of the curve and checkpoints go to the sink as they come; the newest line is held back, since it is
// the final result unless another follows.
class CommandResults {
 public:
  // `request` and `sink` must outlive it.
  CommandResults(const RunRequest& request, RunSink* sink);
  CommandResults(const CommandResults&) = delete;
  CommandResults& operator=(const CommandResults&) = delete;

  // To be called first. INVALID_ARGUMENT if a pattern does not compile.
  absl::Status PreparePatterns();
  // Take what was read from either descriptor.
  void AddResults(absl::string_view bytes) { result_lines_.Add(bytes); }
  void AddStdout(absl::string_view bytes) { stdout_lines_.Add(bytes); }
  // The program is stopped from here on, perhaps in the middle of a line.
  void Interrupt() { interrupted_ = true; }
  // All was read.
  void Finish();

  // True once a point of the lease's target was reported.
  bool reached_target() const { return reached_; }
  // Returns what is wrong with the first malformed line on the result descriptor; empty: none was.
  const std::string& bad_line() const { return bad_line_; }
  const std::string& checkpoint() const { return checkpoint_; }
  // Returns since when the newest line is held back; InfiniteDuration: there is none.
  absl::Duration held_since() const;
  // Reports the line that is held back as a point of the curve.
  void EmitHeld();

  // Adds a note for people; the first few different ones are kept.
  void Note(const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }

  // Returns the outcome of a program that ended well, or as it was asked to. After Finish.
  RunOutcome Outcome();

 private:
  void OnResultLine(const TextLine& line);
  void OnStdoutLine(const TextLine& line);
  void OnContent(const TextLine& line, LineContent found, bool torn);
  // A line of standard output that has the metric and is no result. It counts unless a result follows.
  void OnUnreadable(const TextLine& line, const LineContent& found);
  // Handles a result of either descriptor.
  void OnResult(ResultLine line);
  void Accept(ResultLine line);
  void AcceptPoint(const PatternMatcher::Point& point);
  // Leaves out, or completes, a gradient that is not as the study wants it.
  void SettleGradient(ResultLine* line);
  // Returns the failure of a program that ended well and reported no value of the metric.
  RunOutcome NoResult() const;

  const RunRequest& request_;
  const study::CommandObjective& command_;
  const std::string metric_;
  RunSink* const sink_;
  const base::SystemClock clock_;

  LineSplitter result_lines_, stdout_lines_;
  std::optional<PatternMatcher> patterns_;
  ResultFinder finder_;
  std::optional<ResultLine> held_;  // The newest line, which is the final result unless another follows.
  bool held_emitted_ = false;
  bool final_seen_ = false;
  absl::Duration held_since_;
  int64_t next_step_ = 0;
  std::string checkpoint_;
  int64_t stdout_line_ = 0;       // The number of the newest one.
  bool descriptor_used_ = false;  // The one of results.
  std::string bad_line_;
  std::string unreadable_;  // The newest line of standard output, if it has the metric and is no result.
  bool unreadable_final_ = false;
  std::string doubtful_line_;  // The newest line of standard output that was almost a result.
  std::string last_line_;      // The newest line that is not blank, or its beginning.
  std::vector<std::string> notes_;
  bool reached_ = false;
  bool interrupted_ = false;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_RESULTS_H_
