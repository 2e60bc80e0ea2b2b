#ifndef LUTHIER_WORKER_OBJECTIVES_RESULT_LINE_H_
#define LUTHIER_WORKER_OBJECTIVES_RESULT_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/study/measurement.h"

namespace luthier::worker {

// One line a program wrote about its progress. docs/guide/command_objective.md is the manual of the format.
struct ResultLine {
  study::Measurement measurement;  // Without metrics: the line carries a checkpoint only. `step` is 0 when not given.
  bool has_step = false;
  bool along_asked = false;  // The gradient is a slope without a direction: along the one that was asked for.
  std::string checkpoint;
  bool final = false;
  bool pruned = false;
  bool complete = false;              // Training is at its end, even if the target was not reached.
  std::optional<int64_t> start_step;  // The run goes on from this step; 0: it began afresh.
  std::vector<std::string> notes;     // For people: each part of the line that was wrong and is left out.
};

inline constexpr int kMaxMetrics = 32;
inline constexpr size_t kMaxCheckpointBytes = 1024;

// `metric`: the study's. Python's NaN, Infinity and -Infinity are read as numbers, null as NaN.
// INVALID_ARGUMENT: no JSON object, the study's metric missing or no number, a malformed field.
absl::StatusOr<ResultLine> ParseResultLine(absl::string_view line, const std::string& metric);

// Returns true if a line of standard output is meant as a result: a JSON object with a key `metric` or "metrics" on its
// top level. (On the result descriptor every line is.)
bool LooksLikeResult(absl::string_view line, const std::string& metric);

// A number as people write it: decimal, or any common spelling of NaN and infinity. NaNs are all the same NaN, so that
// a value survives being written and read bit for bit.
std::optional<double> ParseNumber(absl::string_view text);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_RESULT_LINE_H_
