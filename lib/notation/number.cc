#include "lib/notation/number.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace luthier::notation {

bool ParseNumber(absl::string_view text, double* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') {
    ++begin;
    if (begin != end && (*begin == '-' || *begin == '+')) return false;
  }
  if (begin == end) return false;
  const std::from_chars_result result = std::from_chars(begin, end, *value);
  if (result.ptr != end) return false;
  if (result.ec == std::errc()) return true;
  if (result.ec != std::errc::result_out_of_range) return false;
  // Out of range covers underflow too: a number that rounds to zero is zero; one too large is refused.
  const absl::string_view digits(begin, static_cast<size_t>(end - begin));
  const size_t exponent = digits.find_first_of("eE");
  if (exponent == absl::string_view::npos || exponent + 1 >= digits.size() || digits[exponent + 1] != '-') return false;
  *value = 0.0;
  return true;
}

std::optional<double> ParseNonFinite(absl::string_view text) {
  constexpr size_t kLongest = 24;
  constexpr char kSign[] = "\xE2\x88\x9E";
  if (text.empty() || text.size() > kLongest) return std::nullopt;
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  const std::string word = absl::AsciiStrToLower(text);
  const double infinity = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (word == "inf" || word == "infinity" || word == kSign) return infinity;
  const bool nan = word == "nan" || (absl::StartsWith(word, "nan(") && absl::EndsWith(word, ")"));
  if (nan) return std::numeric_limits<double>::quiet_NaN();
  // 1.#IND, 1.#QNAN, 1.#INF, and what rounding to few digits makes of them, such as 1.#J and 1.#IO.
  const bool old = word.size() > 3 && absl::ascii_isdigit(word[0]) && word.substr(1, 2) == ".#" &&
                   absl::ascii_isalpha(word[3]) &&
                   std::all_of(word.begin() + 3, word.end(), [](unsigned char c) { return absl::ascii_isalnum(c); });
  if (!old) return std::nullopt;
  return absl::StartsWith(word.substr(3), "inf") ? infinity : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace luthier::notation
