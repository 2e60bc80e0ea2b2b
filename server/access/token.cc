#include "server/access/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/hash.h"

namespace luthier::access {
namespace {

constexpr absl::string_view kPrefix = "lut_";
constexpr size_t kIdChars = 16;
constexpr size_t kSecretBytes = 32;
constexpr size_t kSecretChars = 43;  // The bytes in base64, without padding.

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  LUTHIER_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1);
  return bytes;
}

bool IsLowerHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool IsUrlBase64(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
}

}  // namespace

std::string TokenText::ToString() const {
  return absl::StrCat(kPrefix, id, "_", secret);
}

TokenText NewToken() {
  return {absl::BytesToHexString(RandomBytes(kIdChars / 2)), NewSecret()};
}

std::string NewSecret() {
  return absl::WebSafeBase64Escape(RandomBytes(kSecretBytes));
}

std::optional<TokenText> ParseToken(absl::string_view text) {
  if (text.size() != kPrefix.size() + kIdChars + 1 + kSecretChars || !absl::StartsWith(text, kPrefix)) {
    return std::nullopt;
  }
  const absl::string_view id = text.substr(kPrefix.size(), kIdChars);
  const absl::string_view secret = text.substr(kPrefix.size() + kIdChars + 1);
  if (text[kPrefix.size() + kIdChars] != '_' || !std::all_of(id.begin(), id.end(), IsLowerHex) ||
      !std::all_of(secret.begin(), secret.end(), IsUrlBase64)) {
    return std::nullopt;
  }
  return TokenText{std::string(id), std::string(secret)};
}

std::string HashOf(const std::string& secret) {
  return base::Sha256Hex(secret);
}

bool SameHash(const std::string& a, const std::string& b) {
  return a.size() == b.size() && !a.empty() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace luthier::access
