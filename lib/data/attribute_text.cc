#include "lib/data/attribute_text.h"

#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/status_macros.h"
#include "lib/data/column_text.h"

namespace luthier::data {
namespace {

// Splits a field into the name of an attribute and its value's text, if there is one.
void SplitAttribute(absl::string_view field, std::string* name, std::optional<absl::string_view>* value) {
  name->clear();
  value->reset();
  for (size_t k = 0; k < field.size(); ++k) {
    if (field[k] == '\\' && k + 1 < field.size() && (field[k + 1] == ':' || field[k + 1] == '\\')) {
      name->push_back(field[++k]);
    } else if (field[k] == ':') {
      *value = field.substr(k + 1);
      return;
    } else {
      name->push_back(field[k]);
    }
  }
}

}  // namespace

absl::StatusOr<AttributeText> ReadAttributeText(LineReader& lines) {
  AttributeText text;
  text.name = lines.name();
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", lines.line_number(), ": ", what));
  };
  const auto end_sequence = [&] {
    if (text.tokens() > text.sequence_start.back()) text.sequence_start.push_back(text.tokens());
  };
  std::string name;
  std::optional<absl::string_view> value_text;
  std::vector<int64_t> place;  // For each attribute: its place in `attribute` in the last token that had it.
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> next, lines.Next());
    if (!next) break;
    if (next->find_first_not_of(" \t") == absl::string_view::npos) {
      end_sequence();
      continue;
    }
    if (text.tokens() - text.sequence_start.back() >= kMaxSequenceTokens) {
      return error(absl::StrCat("the sequence has more than ", kMaxSequenceTokens,
                                " tokens; are the blank lines between sequences missing?"));
    }
    if (text.tokens() >= INT32_MAX || lines.line_number() >= INT32_MAX) return error("the file has too many tokens");
    const std::vector<absl::string_view> fields = absl::StrSplit(*next, '\t');
    if (fields[0].empty()) return error("has no label before its first tab");
    const auto first = static_cast<int64_t>(text.attribute.size());
    for (size_t k = 1; k < fields.size(); ++k) {
      if (fields[k].empty() && k + 1 == fields.size()) break;  // A tab at the end of the line.
      SplitAttribute(fields[k], &name, &value_text);
      if (name.empty()) return error(absl::StrCat("attribute ", k, " has no name"));
      double value = 1.0;
      if (value_text && (!absl::SimpleAtod(*value_text, &value) || !std::isfinite(value))) {
        return error(absl::StrCat("attribute ", k,
                                  " has a value that is not a finite number; a colon in a name is written \\:"));
      }
      const int32_t id = text.attributes.Intern(name);
      if (static_cast<size_t>(id) == place.size()) place.push_back(-1);
      int64_t& at = place[static_cast<size_t>(id)];
      if (at < first) {
        at = static_cast<int64_t>(text.attribute.size());
        text.attribute.push_back(id);
        text.value.push_back(value);
      } else {
        double& sum = text.value[static_cast<size_t>(at)];
        sum += value;
        if (!std::isfinite(sum)) return error(absl::StrCat("the values of attribute ", k, " are too large"));
      }
    }
    const int32_t label = text.label_names.Intern(fields[0]);
    if (label >= kMaxLabels) {
      return error(absl::StrCat("its label is number ", kMaxLabels + 1, "; is the label in the first column?"));
    }
    text.label.push_back(label);
    text.line.push_back(static_cast<int32_t>(lines.line_number()));
    text.token_start.push_back(static_cast<int64_t>(text.attribute.size()));
  }
  end_sequence();
  if (text.tokens() == 0) return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": has no tokens"));
  return text;
}

}  // namespace luthier::data
