#include "lib/wire/certificate.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"

namespace luthier::wire {
namespace {

constexpr absl::string_view kBegin = "-----BEGIN CERTIFICATE-----", kEnd = "-----END CERTIFICATE-----";
constexpr size_t kDigits = 64;

}  // namespace

absl::StatusOr<std::string> CertificateSha256(absl::string_view pem) {
  const size_t begin = pem.find(kBegin);
  const size_t end = pem.find(kEnd, begin);
  std::string der;
  if (begin == absl::string_view::npos || end == absl::string_view::npos ||
      !absl::Base64Unescape(pem.substr(begin + kBegin.size(), end - begin - kBegin.size()), &der) || der.empty()) {
    return absl::InvalidArgumentError("there is no certificate in PEM");
  }
  return base::Sha256Hex(der);
}

absl::StatusOr<std::string> ParseFingerprint(absl::string_view text) {
  const bool colons = text.size() == kDigits + kDigits / 2 - 1;
  bool placed = true;
  for (size_t i = 2; colons && i < text.size(); i += 3) placed = placed && text[i] == ':';
  const std::string digits = absl::AsciiStrToLower(colons ? absl::StrReplaceAll(text, {{":", ""}}) : std::string(text));
  if (!placed || digits.size() != kDigits || !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) {
    return absl::InvalidArgumentError(
        absl::StrCat(base::Quote(text), " is no SHA-256 of a certificate: 64 hexadecimal digits"));
  }
  return digits;
}

}  // namespace luthier::wire
