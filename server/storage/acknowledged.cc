#include "server/storage/acknowledged.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "server/storage/damage.h"

namespace luthier::storage {
namespace {

constexpr mode_t kPrivateFile = 0600;
constexpr size_t kDigits = 20;
constexpr size_t kBytes = 2 * kDigits - 2;  // The number, a space, 16 digits of its hash and an end of line.

std::string Line(uint64_t seq) {
  const std::string number = absl::StrFormat("%020d", seq);
  return absl::StrFormat("%s %016x\n", number, base::Hash64(number));
}

}  // namespace

std::string Acknowledged::Path(const std::string& directory) {
  return directory + "/acknowledged";
}

uint64_t Acknowledged::Read(const std::string& directory) {
  const int fd = open(Path(directory).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[kBytes] = {};
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  close(fd);
  const absl::string_view line(text, sizeof(text));
  uint64_t seq = 0;
  if (size == static_cast<ssize_t>(sizeof(text)) && absl::SimpleAtoi(line.substr(0, kDigits), &seq) &&
      line == Line(seq)) {
    return seq;
  }
  base::LogWarning("storage_acknowledged_unreadable", {{"file", Path(directory)}});
  return 0;
}

absl::StatusOr<std::unique_ptr<Acknowledged>> Acknowledged::Open(const std::string& directory) {
  const int fd = open(Path(directory).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivateFile);
  if (fd < 0) {
    return absl::FailedPreconditionError(absl::StrCat("can't open ", Path(directory), ": ", std::strerror(errno)));
  }
  return std::unique_ptr<Acknowledged>(new Acknowledged(fd));
}

Acknowledged::~Acknowledged() {
  close(fd_);
}

void Acknowledged::Note(uint64_t seq) {
  const std::string line = Line(seq);
  // What is left of a shorter write is no line.
  (void)!pwrite(fd_, line.data(), line.size(), 0);
}

absl::Status CheckAcknowledged(const std::string& directory, uint64_t acknowledged, uint64_t last_seq) {
  if (last_seq >= acknowledged) return absl::OkStatus();
  return Damaged(0, absl::StrCat("the end of the database (it ends with event ", last_seq, ", but event ", acknowledged,
                                 " was acknowledged; if an older copy was put here on purpose, remove ",
                                 Acknowledged::Path(directory), ")"));
}

}  // namespace luthier::storage
