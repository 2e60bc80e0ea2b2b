#ifndef LUTHIER_WORKER_OBJECTIVES_PATTERNS_H_
#define LUTHIER_WORKER_OBJECTIVES_PATTERNS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::worker {

// Finds metrics in free text: metric -> study::OutputPattern, whose first group is a number. The last match of each
// counts. Matching is line by line. A carriage return ends a line too (progress bars). Only the first 4 KiB of a line
// are looked at. Not thread-safe.
class PatternMatcher {
 public:
  // INVALID_ARGUMENT names a pattern that is no OutputPattern.
  static absl::StatusOr<PatternMatcher> Create(const std::map<std::string, std::string>& patterns);
  PatternMatcher(PatternMatcher&&) noexcept;
  PatternMatcher& operator=(PatternMatcher&&) noexcept;
  ~PatternMatcher();

  void AddLine(absl::string_view line);
  // Metrics found so far. INVALID_ARGUMENT when the last match of one is no number.
  absl::StatusOr<std::map<std::string, double>> Values() const;

 private:
  struct State;
  explicit PatternMatcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_PATTERNS_H_
