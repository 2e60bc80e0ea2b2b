#ifndef LUTHIER_LIB_BASE_PRINTABLE_H_
#define LUTHIER_LIB_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// Text of strangers made fit to be seen: in a terminal, in a log, in a message. The one place that knows which
// characters may not be shown as they are: control characters, which steer a terminal; those that change the direction
// of what follows (U+202E), which make text look like another; and those without a glyph (U+200B), which hide.
namespace luthier::base {

// One character of UTF-8.
struct Utf8Character {
  char32_t code = 0;
  size_t bytes = 1;
  bool valid = false;
};

// The character with which `text` begins; one byte that is not valid where there is none. `text` is not empty.
Utf8Character FirstCharacter(absl::string_view text);

// `text` with such characters as \xNN, \uNNNN or \UNNNNNNNN, and bytes that are no UTF-8 as \xNN. A backslash goes
// before the ASCII characters of `also`.
std::string Printable(absl::string_view text, absl::string_view also = "");

// The same of each line of a text of several.
std::string PrintableLines(absl::string_view text);

// The languages of structured text.
enum class Escapes { kJson, kYaml };

// Returns what was written in JSON, or in YAML whose strings are in double quotes, with such characters as escapes: it
// reads back as the same. `text` is UTF-8.
std::string PrintableJson(absl::string_view text, Escapes escapes = Escapes::kJson);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_PRINTABLE_H_
