#ifndef LUTHIER_WORKER_OBJECTIVES_PATTERNS_H_
#define LUTHIER_WORKER_OBJECTIVES_PATTERNS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/objectives/output.h"

namespace luthier::worker {

// Finds metrics in free text. Each metric has a study::OutputPattern, whose first group is a number. The last value of
// each counts; one that cannot be read never gives way to an older one. Matching is line by line (TextLine). Only the
// first 4 KiB of a line are looked at. Not thread-safe.
//
// The pattern study::kStepPattern finds the step, unless the study's metric has that name. The values found from one
// step to the next are a point of the learning curve. A point is returned when its step is over, since a program may
// print a value more than once. Steps that are not whole numbers of at least 0, or not above the one before, are
// ignored together with what follows them.
class PatternMatcher {
 public:
  struct Point {
    int64_t step = 0;
    std::map<std::string, double> values;
  };
  // `metric` is the study's, which every point has. INVALID_ARGUMENT names a pattern that is not an OutputPattern.
  static absl::StatusOr<PatternMatcher> Create(const std::map<std::string, std::string>& patterns,
                                               const std::string& metric);
  PatternMatcher(PatternMatcher&&) noexcept;
  PatternMatcher& operator=(PatternMatcher&&) noexcept;
  ~PatternMatcher();

  // Returns the point that the line ended, if any.
  std::optional<Point> AddLine(const TextLine& line);
  // Returns the last point, at the end of the text.
  std::optional<Point> End();
  struct Found {
    std::map<std::string, double> values;
    std::vector<std::string> notes;  // For people: metrics that are left out because their last value is not a number.
  };
  // Returns the metrics found so far. INVALID_ARGUMENT names the line if the last value of the study's metric is not a
  // number.
  absl::StatusOr<Found> Values() const;

 private:
  struct State;
  explicit PatternMatcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_PATTERNS_H_
