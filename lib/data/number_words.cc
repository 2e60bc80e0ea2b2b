#include "lib/data/number_words.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace luthier::data {
namespace {

// The text with "d" for each run of digits, and the lengths of these runs: 1.234,5 becomes "d.d,d".
struct Shape {
  std::string text;
  std::vector<size_t> digits;
};

Shape ShapeOf(absl::string_view text) {
  Shape shape;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end > i) {
      shape.text += 'd';
      shape.digits.push_back(end - i);
      i = end;
    } else {
      shape.text += text[i++];
    }
  }
  return shape;
}

bool InThrees(const Shape& shape, size_t first, size_t last) {
  return std::all_of(shape.digits.begin() + static_cast<std::ptrdiff_t>(first),
                     shape.digits.begin() + static_cast<std::ptrdiff_t>(last), [](size_t n) { return n == 3; });
}

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

absl::string_view Unsigned(absl::string_view text) {
  return absl::StartsWith(text, "-") || absl::StartsWith(text, "+") ? text.substr(1) : text;
}

}  // namespace

bool HasDecimalComma(absl::string_view text) {
  return IsOneOf(ShapeOf(Unsigned(text)).text, {"d,d", ",d", "d,de-d", "d,dE-d", "d,de+d", "d,dE+d", "d,ded", "d,dEd"});
}

const char* WhyNoNumber(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (IsOneOf(lower, {"-", ".", "#n/a", "nat", "\\n"})) return "is missing; remove or impute it";
  const absl::string_view bare = Unsigned(text);
  const Shape shape = ShapeOf(bare);
  if (HasDecimalComma(text)) {
    const bool either = shape.text == "d,d" && shape.digits[1] == 3 && shape.digits[0] <= 3 && bare[0] != '0';
    return either ? "has a comma, for decimals or for thousands; export with a point, and without separators"
                  : "is written with a decimal comma; export with a point";
  }
  const absl::string_view day = absl::string_view(shape.text).substr(0, shape.text.find_first_of(" T"));
  const bool year = shape.digits.size() > 2 && (shape.digits[0] == 4 || shape.digits[2] == 4 || shape.digits[2] == 2);
  const bool dots = day == "d.d.d" && shape.digits[1] <= 2 && year;
  if (IsOneOf(day, {"d-d-d", "d/d/d"}) || dots) {
    return shape.digits[0] == 4 ? "is a date; a date orders rows: split.time_column"
                                : "is a date; a date orders rows: write it year first and name it as split.time_column";
  }
  if (IsOneOf(shape.text, {"d:d", "d:d:d", "d:d:d.d"})) {
    return "is a time; a time orders rows: split.time_column";
  }
  // Spaces of Unicode have bytes of their own.
  const bool separated = !shape.digits.empty() && !IsOneOf(shape.text, {"d.d", "d"}) &&
                         absl::StartsWith(shape.text, "d") &&
                         shape.text.find_first_not_of("d,.'_ \xC2\xA0\xE2\x80\xAF\x89") == std::string::npos;
  if (separated) {
    const bool decimals = shape.digits.size() > 2 && shape.digits.back() != 3;
    if (InThrees(shape, 1, shape.digits.size() - (decimals ? 1 : 0))) {
      return "has thousands separators; export without them, and with a point for decimals";
    }
  }
  if (absl::EndsWith(text, "%")) return "is a percentage; export the number alone";
  if (IsOneOf(lower, {"true", "false", "yes", "no"})) return "is true or false; export 1 or 0";
  // Examples: 12 kg, $3.50, 4 €.
  const bool measured = shape.digits.size() == 1 || (shape.digits.size() == 2 && absl::StrContains(shape.text, "d.d"));
  const bool currency =
      absl::StrContains(text, "$") || absl::StrContains(text, "\xE2\x82\xAC") || absl::StrContains(text, "\xC2\xA3");
  if (measured && (currency || absl::StrContains(shape.text, "d "))) return "has a unit; export the number alone";
  return "is not a number; encode categories as numbers first";
}

}  // namespace luthier::data
