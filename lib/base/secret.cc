#include "lib/base/secret.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"

namespace luthier::base {
namespace {

constexpr absl::string_view kToken = "lut_";
constexpr size_t kIdSize = 16;

// Returns true if the text begins with a token's id and the '_' behind it.
bool BeginsWithId(absl::string_view text) {
  const size_t size = kToken.size() + kIdSize;
  return text.size() > size && text[size] == '_' &&
         std::all_of(text.begin() + kToken.size(), text.begin() + size, absl::ascii_isalnum);
}

// Returns true for bytes that may be meant as part of a secret, also for bytes that no secret has.
bool MayBeSecret(char c) {
  return static_cast<unsigned char>(c) > 0x20 && c != '"' && c != '\'' && c != ',' && c != ';';
}

// Hides the secrets in the dumps of bytes in gRPC's log.
std::string HideBytes(std::string text) {
  const std::string bytes = "6c 75 74 5f ";
  for (size_t at = text.find(bytes); at != std::string::npos; at = text.find(bytes, at + 1)) {
    size_t end = at + bytes.size();
    while (end < text.size() && (absl::ascii_isxdigit(text[end]) || text[end] == ' ')) ++end;
    text.replace(at + bytes.size(), end - at - bytes.size(), "… ");
  }
  return text;
}

}  // namespace

std::string HideTokens(absl::string_view text) {
  std::string shown;
  for (size_t at = text.find(kToken); at != absl::string_view::npos; at = text.find(kToken)) {
    size_t end = at + kToken.size();
    shown.append(text.data(), end);
    if (BeginsWithId(text.substr(at))) {
      shown.append(text.data() + end, kIdSize + 1);
      shown += "…";
      while (end < text.size() && MayBeSecret(text[end])) ++end;
    }
    text.remove_prefix(end);
  }
  return HideBytes(std::move(shown.append(text.data(), text.size())));
}

}  // namespace luthier::base
