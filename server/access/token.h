#ifndef LUTHIER_SERVER_ACCESS_TOKEN_H_
#define LUTHIER_SERVER_ACCESS_TOKEN_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

// The text of a token: "lut_", 16 characters that name it, '_', 43 characters of secret (256 bits).
namespace luthier::access {

struct TokenText {
  std::string id;
  std::string secret;
  std::string ToString() const;
};

// Makes a token from the kernel's random numbers.
TokenText NewToken();
// Makes a new secret for an existing token.
std::string NewSecret();
// Returns nothing for text that is not of that form.
std::optional<TokenText> ParseToken(absl::string_view text);
// Returns what the store keeps of a secret. A slow hash would be of no use: nobody guesses 256 random bits.
std::string HashOf(const std::string& secret);
// Compares in a time that does not depend on where they differ.
bool SameHash(const std::string& a, const std::string& b);

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_TOKEN_H_
