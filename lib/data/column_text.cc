#include "lib/data/column_text.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"

namespace luthier::data {
namespace {

void SplitFields(absl::string_view line, std::vector<absl::string_view>* fields) {
  fields->clear();
  size_t at = 0;
  while (true) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    if (at == line.size()) return;
    const size_t begin = at;
    while (at < line.size() && line[at] != ' ' && line[at] != '\t') ++at;
    fields->push_back(line.substr(begin, at - begin));
  }
}

}  // namespace

absl::StatusOr<int> CountFields(LineReader& lines) {
  std::vector<absl::string_view> fields;
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> next, lines.Next());
    if (!next) return 0;
    SplitFields(*next, &fields);
    if (!fields.empty()) return static_cast<int>(fields.size());
  }
}

absl::StatusOr<ColumnText> ReadColumnText(LineReader& lines, LabelColumn labels) {
  const int last = labels == LabelColumn::kLast ? 1 : 0;
  ColumnText text;
  text.name = lines.name();
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", lines.line_number(), ": ", what));
  };
  const auto end_sequence = [&] {
    if (text.tokens() > text.sequence_start.back()) text.sequence_start.push_back(text.tokens());
  };
  std::vector<absl::string_view> fields;
  int64_t first_line = 0;
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> next, lines.Next());
    if (!next) break;
    SplitFields(*next, &fields);
    if (fields.empty()) {
      end_sequence();
      continue;
    }
    const int columns = static_cast<int>(fields.size()) - last;
    if (text.tokens() == 0) {
      if (columns < 1) return error("a token needs at least two columns, the last one its label; there is one");
      text.columns = columns;
      first_line = lines.line_number();
    } else if (columns != text.columns) {
      return error(
          absl::StrCat("has ", fields.size(), " columns, but line ", first_line, " has ", text.columns + last));
    }
    if (text.tokens() - text.sequence_start.back() >= kMaxSequenceTokens) {
      return error(absl::StrCat("the sequence has more than ", kMaxSequenceTokens,
                                " tokens; are the blank lines between sequences missing?"));
    }
    if (text.tokens() >= INT32_MAX || lines.line_number() >= INT32_MAX) return error("the file has too many tokens");
    for (int c = 0; c < columns; ++c) text.cell.push_back(text.strings.Intern(fields[static_cast<size_t>(c)]));
    const int32_t label = text.label_names.Intern(last == 1 ? fields.back() : "");
    if (label >= kMaxLabels) {
      return error(absl::StrCat("its label is number ", kMaxLabels + 1, "; is the label in the last column?"));
    }
    text.label.push_back(label);
    text.line.push_back(static_cast<int32_t>(lines.line_number()));
  }
  end_sequence();
  if (text.tokens() == 0) return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": has no tokens"));
  return text;
}

}  // namespace luthier::data
