#include "lib/study/output_pattern.h"

#include <re2/re2.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace luthier::study {

OutputPattern::OutputPattern(std::unique_ptr<const re2::RE2> regex) : regex_(std::move(regex)) {}
OutputPattern::OutputPattern(OutputPattern&&) noexcept = default;
OutputPattern& OutputPattern::operator=(OutputPattern&&) noexcept = default;
OutputPattern::~OutputPattern() = default;

absl::StatusOr<OutputPattern> OutputPattern::Compile(const std::string& pattern) {
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  auto regex = std::make_unique<const RE2>(pattern, options);
  if (!regex->ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is not a regular expression of RE2, which has no back-references and no look-ahead: ", regex->error()));
  }
  if (regex->NumberOfCapturingGroups() < 1) {
    return absl::InvalidArgumentError("has no group; put parentheses around the number");
  }
  return OutputPattern(std::move(regex));
}

std::optional<std::string> OutputPattern::LastMatch(absl::string_view text) const {
  const re2::StringPiece piece(text.data(), text.size());
  std::optional<std::string> last;
  re2::StringPiece groups[2];  // The whole match, the first group.
  size_t begin = 0;
  while (begin <= text.size() && regex_->Match(piece, begin, text.size(), RE2::UNANCHORED, groups, 2)) {
    last = std::string(groups[1]);
    const size_t end = static_cast<size_t>(groups[0].data() - text.data()) + groups[0].size();
    begin = groups[0].empty() ? end + 1 : end;
  }
  return last;
}

}  // namespace luthier::study
