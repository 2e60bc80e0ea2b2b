// Texts of tokens, files that hold them, and fingerprints. Nothing that is said about a file may hold what is in it.
#include "server/access/token.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/wire/certificate.h"
#include "lib/wire/token_file.h"
#include "tests/fuzz/fuzz.h"

namespace luthier {
namespace {

// A token of the input's that is long enough to be a secret does not stand in a message, plain or in hexadecimal.
void MustHide(absl::string_view input, const absl::Status& error) {
  constexpr size_t kSecret = 12;
  const size_t begin = input.find("lut_");
  if (begin == absl::string_view::npos) return;
  const absl::string_view secret = input.substr(begin + 4, kSecret);
  if (secret.size() < kSecret) return;
  const std::string text = error.ToString();
  fuzz::Must(!absl::StrContains(text, secret), "a message does not hold a token", text);
  fuzz::Must(!absl::StrContains(text, absl::BytesToHexString(secret)), "a message does not hold a token's bytes", text);
}

void ReadFile(absl::string_view input) {
  const int fd = memfd_create("token", MFD_CLOEXEC);
  fuzz::Must(fd >= 0, "the machine has memory files");
  fuzz::Must(fchmod(fd, 0600) == 0 && write(fd, input.data(), input.size()) == static_cast<ssize_t>(input.size()),
             "a memory file can be written");
  const auto token = wire::ReadTokenFile(absl::StrCat("/proc/self/fd/", fd));
  close(fd);
  if (!token.ok()) {
    fuzz::MustExplain(token.status());
    return MustHide(input, token.status());
  }
  fuzz::Must(absl::StartsWith(*token, "lut_"), "what is read from a file begins as a token", *token);
  for (const char c : *token) {
    fuzz::Must(absl::ascii_isgraph(static_cast<unsigned char>(c)), "a token that is read can be sent in a header",
               absl::CHexEscape(*token));
  }
}

}  // namespace

LUTHIER_FUZZ_TARGET(token) {
  if (const auto token = access::ParseToken(input)) {
    fuzz::Must(token->ToString() == input, "a token is written as it was read", absl::CHexEscape(input));
    fuzz::Must(access::SameHash(access::HashOf(token->secret), access::HashOf(token->secret)), "hashes are equal");
  }
  ReadFile(input);
  if (const auto print = wire::ParseFingerprint(input); print.ok()) {
    const auto again = wire::ParseFingerprint(*print);
    fuzz::Must(again.ok() && *again == *print, "a fingerprint reads back equal", *print);
  } else {
    fuzz::MustExplain(print.status());
  }
  if (const auto print = wire::CertificateSha256(input); !print.ok()) fuzz::MustExplain(print.status());
}

}  // namespace luthier
