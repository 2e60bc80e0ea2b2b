#ifndef LUTHIER_LIB_WIRE_TEXT_H_
#define LUTHIER_LIB_WIRE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

// Protobuf's `string` fields must be UTF-8: a message with other bytes is refused by the receiver's parser, before any
// code of ours sees it. Output of commands, exception texts and file names therefore pass through here.
namespace luthier::wire {

// Returns the offset of the first byte that is not part of a well-formed UTF-8 sequence (no surrogates, nothing
// overlong); text.size() if there is none.
size_t InvalidUtf8At(absl::string_view text);

// Each byte that is not part of well-formed UTF-8 becomes U+FFFD. Valid text is returned unchanged.
std::string ValidUtf8(absl::string_view text);

// Return the first or last at most `max_bytes` of `text`, cut at a character boundary. The cut leaves "…", which
// counts, unless max_bytes is below 3. The text is valid UTF-8.
std::string CutHead(absl::string_view text, size_t max_bytes);
std::string CutTail(absl::string_view text, size_t max_bytes);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_TEXT_H_
