#ifndef LUTHIER_LIB_WIRE_TOKEN_FILE_H_
#define LUTHIER_LIB_WIRE_TOKEN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::wire {

inline constexpr size_t kMaxTokenBytes = 4096;  // A file may have so many; tokens have 64.

// INVALID_ARGUMENT for a token with a byte that is not visible ASCII: gRPC ends a program that sends one in a header,
// and prints it all before. The error is about `source`, an option or a variable, and `shown`, where the token is; it
// says where the byte is and of which kind, and has nothing of the token.
absl::Status CheckCharacters(absl::string_view token, absl::string_view source, absl::string_view shown);

// Returns the token that a text consists of, blanks and ends of lines around it aside. INVALID_ARGUMENT for anything
// else, in the same words.
absl::StatusOr<std::string> TokenIn(absl::string_view text, absl::string_view source, absl::string_view shown);

// Reads a token from a file: regular, with nothing but the token, and nobody else may read it, except that what another
// user owns (a service manager's) may be for a group; or something to be read once, as a pipe, whose first line counts
// and for which a minute is waited; "-": the first line of standard input. INVALID_ARGUMENT about `source`.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path, absl::string_view source = "token-file");

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_TOKEN_FILE_H_
