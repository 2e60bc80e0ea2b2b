#ifndef LUTHIER_LIB_WIRE_TOKEN_FILE_H_
#define LUTHIER_LIB_WIRE_TOKEN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::wire {

inline constexpr size_t kMaxTokenBytes = 4096;  // A file may have so many; tokens have 64.

// Returns INVALID_ARGUMENT for a token with a byte that is not visible ASCII: gRPC ends a program that sends such a
// token in a header, and prints all of it before. The error names `source`, an option or a variable, and `shown`, the
// place of the token; it tells the position and kind of the byte, and nothing of the token.
absl::Status CheckCharacters(absl::string_view token, absl::string_view source, absl::string_view shown);

// Returns the token that a text consists of, blanks and ends of lines around it aside. Returns INVALID_ARGUMENT for
// anything else, in the same words.
absl::StatusOr<std::string> TokenIn(absl::string_view text, absl::string_view source, absl::string_view shown);

// Reads a token from a file. A regular file must contain nothing but the token, and nobody else may read it, except
// that a group may read a file of another user (a service manager's). From something that can be read once, such as a
// pipe, the first line counts, and a minute is waited for it. "-" is the first line of standard input. Returns
// INVALID_ARGUMENT about `source`.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path, absl::string_view source = "token-file");

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_TOKEN_FILE_H_
