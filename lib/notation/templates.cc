#include "lib/notation/templates.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::notation {
namespace {

constexpr char kChunking[] =
    "w[-2], w[-1], w[0], w[1], w[2], w[-1]|w[0], w[0]|w[1], pos[-2], pos[-1], pos[0], pos[1], pos[2], "
    "pos[-2]|pos[-1], pos[-1]|pos[0], pos[0]|pos[1], pos[1]|pos[2], "
    "pos[-2]|pos[-1]|pos[0], pos[-1]|pos[0]|pos[1], pos[0]|pos[1]|pos[2]";
constexpr int kMaxColumn = 1000;

absl::Status Error(absl::string_view whole, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("template ", base::Quote(whole), ": ", what));
}

absl::Status CheckOffset(absl::string_view whole, absl::string_view text, int* offset) {
  if (!absl::SimpleAtoi(text, offset)) return Error(whole, absl::StrCat(base::Quote(text), " is not an offset"));
  if (*offset < -kMaxOffset || *offset > kMaxOffset) {
    return Error(whole, absl::StrCat("offset ", *offset, " is not in [-", kMaxOffset, ", ", kMaxOffset, "]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Template> ParsePlusPlus(absl::string_view text) {
  Template result;
  const size_t first = text.find('%');
  result.space = std::string(text.substr(0, first));
  absl::string_view rest = text.substr(first);
  while (!rest.empty()) {
    const size_t end = rest.find(']');
    if (rest.substr(0, 3) != "%x[" || end == absl::string_view::npos) {
      return Error(text, absl::StrCat("expected %x[row,column] at ", base::Quote(rest)));
    }
    const std::vector<absl::string_view> numbers = absl::StrSplit(rest.substr(3, end - 3), ',');
    Position position;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[1], &position.column) || position.column < 0 ||
        position.column > kMaxColumn) {
      return Error(text, absl::StrCat(base::Quote(rest.substr(0, end + 1)), " is not %x[row,column]"));
    }
    LUTHIER_RETURN_IF_ERROR(CheckOffset(text, numbers[0], &position.offset));
    result.positions.push_back(position);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest[0] == '/') rest.remove_prefix(1);
  }
  return result;
}

absl::StatusOr<Template> ParseNamed(absl::string_view text, const std::vector<std::string>& names) {
  Template result;
  result.space = std::string(text);
  for (const absl::string_view part : absl::StrSplit(text, '|')) {
    const size_t open = part.find('[');
    if (open == absl::string_view::npos || part.back() != ']') {
      return Error(text, absl::StrCat(base::Quote(part), " is not name[offset]"));
    }
    const absl::string_view name = part.substr(0, open);
    Position position;
    const auto found = std::find(names.begin(), names.end(), std::string(name));
    if (found == names.end()) {
      return Error(text, absl::StrCat("there is no column ", base::Quote(name), base::DidYouMean(name, names)));
    }
    position.column = static_cast<int>(found - names.begin());
    LUTHIER_RETURN_IF_ERROR(CheckOffset(text, part.substr(open + 1, part.size() - open - 2), &position.offset));
    result.positions.push_back(position);
  }
  return result;
}

// Splits at line ends, semicolons, and commas outside brackets; drops comments and blanks.
std::vector<std::string> Split(absl::string_view text) {
  std::vector<std::string> items(1);
  bool inside = false;
  bool comment = false;
  for (const char c : text) {
    if (c == '\n' || (!comment && (c == ';' || (c == ',' && !inside)))) {
      items.emplace_back();
      inside = false;
      comment = comment && c != '\n';
    } else if (!comment) {
      comment = c == '#';
      inside = (inside || c == '[') && c != ']';
      if (!comment && !absl::ascii_isspace(static_cast<unsigned char>(c))) items.back() += c;
    }
  }
  std::erase_if(items, [](const std::string& item) { return item.empty(); });
  return items;
}

}  // namespace

absl::StatusOr<std::vector<Template>> ParseTemplates(absl::string_view text,
                                                     const std::vector<std::string>& column_names) {
  std::vector<std::string> names = column_names;
  if (names.empty()) {
    names = {"w", "pos"};
    for (int c = 2; c < 100; ++c) names.push_back(absl::StrCat("c", c));
  }
  const bool set = absl::StripAsciiWhitespace(text) == "chunking";
  if (set) text = kChunking;
  std::vector<Template> templates;
  for (const std::string& item : Split(text)) {
    if (item[0] == 'B' && item.find('[') == std::string::npos) continue;
    const bool plus_plus = item.find('%') != std::string::npos;
    LUTHIER_ASSIGN_OR_RETURN(Template one, plus_plus ? ParsePlusPlus(item) : ParseNamed(item, names));
    one.optional = set;
    templates.push_back(std::move(one));
    if (templates.size() > kMaxTemplates) {
      return absl::InvalidArgumentError(absl::StrCat("templates: there are more than ", kMaxTemplates));
    }
  }
  if (templates.empty()) return absl::InvalidArgumentError("templates: there are none");
  return templates;
}

}  // namespace luthier::notation
