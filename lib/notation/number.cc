#include "lib/notation/number.h"

#include <algorithm>
#include <charconv>

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

}  // namespace luthier::notation
