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

  // Returns the first group of the last match in `text`, or std::nullopt without a match. Matches do not overlap.
  std::optional<std::string> LastMatch(absl::string_view text) const;

  // The text of the last value in `text`, whether it can be read as a number or not, so that what a program says newest
  // is never passed over. It is that of LastMatch but for four cases:
  //   - where the group would stand, NaN or infinity counts in any spelling (notation::ParseNonFinite), also behind
  //     blanks;
  //   - behind text that the pattern asks for literally, anything else counts, such as `error` for "loss: ([0-9.]+)",
  //     unless a sentence goes on there ("loss: improved from 2");
  //   - a number that goes on behind the pattern is taken whole, such as 1e-05 for "loss: ([0-9.]+)";
  //   - so is a decimal comma or a thousands separator, which then is no number.
  std::optional<std::string> LastValue(absl::string_view text) const;

 private:
  explicit OutputPattern(std::unique_ptr<const re2::RE2> regex);
  std::unique_ptr<const re2::RE2> regex_;
  std::unique_ptr<const re2::RE2> non_finite_;  // With NaN or infinity for its first group.
  std::unique_ptr<const re2::RE2> anything_;    // With anything for its first group; null: no literal text before it.
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_OUTPUT_PATTERN_H_
