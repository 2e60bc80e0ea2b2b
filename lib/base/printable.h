#ifndef LUTHIER_LIB_BASE_PRINTABLE_H_
#define LUTHIER_LIB_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// Makes text of strangers fit to be seen in a terminal, a log or a message. This is the one place that knows which
// characters may not be shown as they are: control characters, which steer a terminal; characters that change the
// direction of the following text (U+202E), which make text look like another; and characters without a glyph (U+200B),
// which hide.
namespace luthier::base {

// One character of UTF-8.
struct Utf8Character {
  char32_t code = 0;
  size_t bytes = 1;
  bool valid = false;
};

// Returns the first character of `text`, or one byte that is not valid if it begins with none. `text` is not empty.
Utf8Character FirstCharacter(absl::string_view text);

// Returns `text` with such characters as \xNN, \uNNNN or \UNNNNNNNN, and bytes that are not UTF-8 as \xNN. A backslash
// goes before the ASCII characters of `also`.
std::string Printable(absl::string_view text, absl::string_view also = "");

// Does the same for each line of a text of several lines.
std::string PrintableLines(absl::string_view text);

// The languages of structured text.
enum class Escapes { kJson, kYaml };

// Returns a text of JSON, or of YAML whose strings are in double quotes, with such characters as escapes: it reads back
// as the same. `text` is UTF-8.
std::string PrintableJson(absl::string_view text, Escapes escapes = Escapes::kJson);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_PRINTABLE_H_
