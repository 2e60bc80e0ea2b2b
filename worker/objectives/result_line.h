#ifndef LUTHIER_WORKER_OBJECTIVES_RESULT_LINE_H_
#define LUTHIER_WORKER_OBJECTIVES_RESULT_LINE_H_

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/study/measurement.h"
#include "worker/objectives/output.h"

namespace luthier::worker {

// One line a program wrote about its progress. docs/guide/command_objective.md is the manual of the format.
struct ResultLine {
  study::Measurement measurement;         // Without metrics: the line has a checkpoint only. `step` is 0 if not given.
  std::set<std::string> no_numbers = {};  // Names that have something else than a number.
  bool has_step = false;
  bool along_asked = false;  // The gradient is a slope without a direction: along the one that was asked for.
  std::string checkpoint;
  bool final = false;
  bool pruned = false;
  bool complete = false;              // Training has ended, even if the target was not reached.
  std::optional<int64_t> start_step;  // The run goes on from this step; 0: it began afresh.
  std::vector<std::string> notes;     // For people: one for each part of the line that was wrong and is left out.
};

inline constexpr int kMaxMetrics = 32;
inline constexpr size_t kMaxCheckpointBytes = 1024;

// `metric` is the study's. NaN and infinity are read in any spelling, bare or in quotes, and null of the metric as NaN.
// Texts without a meaning here may have bytes that are not UTF-8. Errors in fields other than the study's metric and
// those that decide the meaning of the line leave the field out, with a note.
// INVALID_ARGUMENT: no JSON object; the study's metric is missing, no number or there twice; a malformed field.
absl::StatusOr<ResultLine> ParseResultLine(absl::string_view line, const std::string& metric);

// The kind of a line of standard output.
struct LineContent {
  enum class Kind {
    kText,       // Just output.
    kResult,     // `line`.
    kMalformed,  // The line has the study's metric and cannot be read; `why` gives the reason.
    kAside,      // The line has the metric's `value` behind other text; `why` says how to write it.
    kOther,      // The line has metrics, but not the study's; `why` says so.
  };
  Kind kind = Kind::kText;
  ResultLine line;
  std::string why;
  double value = 0.0;
  bool final = false;  // A malformed line says that it is the last.
};

// Finds results in the lines of standard output. Not thread-safe. A result is a JSON object, on a line of its own or
// over several, whose top level, or the "metrics" there, has the study's metric. Behind a progress bar, which goes back
// to the beginning of its line, it may stand on the same line. (On the result descriptor every line is one.)
class ResultFinder {
 public:
  explicit ResultFinder(std::string metric) : metric_(std::move(metric)) {}
  LineContent Add(const TextLine& line);
  // At the end of the output: of an object that was begun and is not over.
  LineContent End();

 private:
  LineContent OfLine(const TextLine& line) const;
  // Collects the lines of an object or a list over several lines, and reads it once its last line is there.
  LineContent OfLines(const TextLine& line);

  const std::string metric_;
  std::string object_;        // Begun and not over; or empty.
  int depth_ = 0;             // Number of its brackets that are open.
  bool behind_text_ = false;  // It began so.
};

// Reads a number as people write it: decimal, or NaN or infinity in any spelling (notation::ParseNonFinite). All NaNs
// are the same NaN, so that a value survives being written and read bit for bit.
std::optional<double> ParseNumber(absl::string_view text);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_RESULT_LINE_H_
