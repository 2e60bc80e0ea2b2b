#ifndef LUTHIER_LIB_STUDY_OUTPUT_PATTERN_H_
#define LUTHIER_LIB_STUDY_OUTPUT_PATTERN_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace luthier::study {

// Name of the pattern whose number is the step of the learning curve that the lines after it belong to.
inline constexpr char kStepPattern[] = "step";

// A regular expression of `CommandObjective::stdout_patterns`, whose first group is a metric's value. RE2's syntax:
// that of ECMAScript and Perl without back-references and look-ahead, so that matching takes time linear in the text,
// whatever the expression. Text is bytes: a program's output need not be UTF-8. Thread-safe.
class OutputPattern {
 public:
  // INVALID_ARGUMENT says what is wrong: no regular expression, no group, too large.
  static absl::StatusOr<OutputPattern> Compile(const std::string& pattern);
  OutputPattern(OutputPattern&&) noexcept;
  OutputPattern& operator=(OutputPattern&&) noexcept;
  ~OutputPattern();

  // The first group of the last match in `text`. Matches do not overlap. Absent without a match.
  std::optional<std::string> LastMatch(absl::string_view text) const;

 private:
  explicit OutputPattern(std::unique_ptr<const re2::RE2> regex);
  std::unique_ptr<const re2::RE2> regex_;
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_OUTPUT_PATTERN_H_
