#include "lib/wire/token_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/secret.h"
#include "lib/base/status_macros.h"

namespace luthier::wire {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);  // Somebody may have to type a password first.

// Describes, for people, a byte that no token has.
const char* KindOf(unsigned char c) {
  if (c == ' ' || c == '\t') return "a blank";
  if (c == 0) return "a zero byte";
  return c < 0x20 || c == 0x7F ? "a control character" : "a character beyond ASCII";
}

bool BeginsWithMark(absl::string_view text) {
  return absl::StartsWith(text, "\xEF\xBB\xBF") || absl::StartsWith(text, "\xFF\xFE") ||
         absl::StartsWith(text, "\xFE\xFF");
}

// Reads a whole file, or a little more than a token may have.
absl::StatusOr<std::string> ReadWhole(int fd) {
  std::string text(kMaxTokenBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

// Reads one line, a byte at a time: the rest is for others.
absl::StatusOr<std::string> ReadLine(int fd, absl::Duration patience) {
  const base::SystemClock clock;
  const absl::Duration until = clock.Monotonic() + patience;
  std::string line;
  while (line.size() <= kMaxTokenBytes) {
    const auto left = absl::ToInt64Milliseconds(std::min(until - clock.Monotonic(), absl::Hours(1)));
    pollfd ready = {fd, POLLIN, 0};
    if (left <= 0) return absl::UnavailableError("nobody wrote a line to it within a minute");
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    char c = 0;
    const ssize_t got = read(fd, &c, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
    if (got == 0 || c == '\n') break;
    line += c;
  }
  return line;
}

}  // namespace

absl::Status CheckCharacters(absl::string_view token, absl::string_view source, absl::string_view shown) {
  for (size_t i = 0; i < token.size(); ++i) {
    const auto c = static_cast<unsigned char>(token[i]);
    if (absl::ascii_isgraph(c)) continue;
    return base::BadField(source, absl::StrCat(shown, shown.empty() ? "" : " ", "holds no token: character ", i + 1,
                                               " is ", KindOf(c), ", which no token has; copy it once more"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenIn(absl::string_view text, absl::string_view source, absl::string_view shown) {
  const auto refuse = [&](absl::string_view why) {
    return base::BadField(source, absl::StrCat(shown, shown.empty() ? "" : " ", why));
  };
  if (BeginsWithMark(text)) return refuse("begins with a byte order mark; save it as plain text without one");
  if (text.size() > kMaxTokenBytes) return refuse("is larger than a token can be; is it the right one?");
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty()) return refuse("holds no token: it is empty");
  if (!absl::StartsWith(token, "lut_")) return refuse("holds no token: they begin with lut_");
  if (absl::StrContains(token, '\n')) return refuse("holds more than one line; leave the token alone in it");
  LUTHIER_RETURN_IF_ERROR(CheckCharacters(token, source, shown));
  return std::string(token);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path, absl::string_view source) {
  const auto refuse = [&](absl::string_view why) {
    return base::BadField(source, absl::StrCat(base::Quote(path), " ", why));
  };
  if (path == "-") {
    const absl::StatusOr<std::string> line = ReadLine(STDIN_FILENO, absl::InfiniteDuration());
    if (!line.ok()) return base::BadField(source, absl::StrCat("standard input: ", line.status().message()));
    return TokenIn(*line, source, "standard input");
  }
  if (base::HideTokens(path) != path) {
    return base::BadField(source,
                          "is a token where the name of a file with it belongs; whoever lists processes or "
                          "variables may have read it: rotate it");
  }
  // O_NONBLOCK: the other end of a pipe must not be waited for here.
  const base::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) {
    return base::BadField(source, absl::StrCat(base::Quote(path), ": ", std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode)) return refuse("is a folder; name the file with the token");
  if (S_ISREG(info.st_mode)) {
    // A service manager hands over files of root, with a group or an access list of ours.
    const mode_t others = info.st_uid == geteuid() ? S_IRWXG | S_IRWXO : S_IRWXO;
    if ((info.st_mode & others) != 0) return refuse(absl::StrCat("can be read by others; chmod 600 ", path));
  }
  const absl::StatusOr<std::string> text =
      S_ISREG(info.st_mode) ? ReadWhole(file.get()) : ReadLine(file.get(), kPatience);
  if (!text.ok()) return base::BadField(source, absl::StrCat(base::Quote(path), ": ", text.status().message()));
  return TokenIn(*text, source, base::Quote(path));
}

}  // namespace luthier::wire
