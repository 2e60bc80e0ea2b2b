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
#include "lib/base/descriptor.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "server/storage/damage.h"

namespace luthier::storage {
namespace {

constexpr mode_t kOwnersFile = 0600;
constexpr size_t kDigits = 20;
constexpr size_t kBytes = 2 * kDigits - 2;  // The number, a space, 16 digits of its hash and an end of line.

std::string Line(uint64_t seq) {
  const std::string number = absl::StrFormat("%020d", seq);
  return absl::StrFormat("%s %016x\n", number, base::Hash64(number));
}

std::optional<uint64_t> ReadLine(int fd) {
  char text[kBytes] = {};
  if (pread(fd, text, sizeof(text), 0) != static_cast<ssize_t>(sizeof(text))) return std::nullopt;
  const absl::string_view line(text, sizeof(text));
  uint64_t seq = 0;
  if (!absl::SimpleAtoi(line.substr(0, kDigits), &seq) || line != Line(seq)) return std::nullopt;
  return seq;
}

bool IsThere(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

}  // namespace

std::string Acknowledged::Path(const std::string& directory) {
  return directory + "/acknowledged";
}

std::optional<uint64_t> Acknowledged::Read(const std::string& directory) {
  // O_NONBLOCK: a pipe in the file's place must not block.
  const base::Descriptor fd(open(Path(directory).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return std::nullopt;
  const std::optional<uint64_t> seq = ReadLine(fd.get());
  if (!seq) base::LogWarning("storage_acknowledged_unreadable", {{"file", Path(directory)}});
  return seq;
}

absl::StatusOr<std::unique_ptr<Acknowledged>> Acknowledged::Open(const std::string& directory) {
  const int fd = open(Path(directory).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kOwnersFile);
  if (fd < 0) {
    return absl::FailedPreconditionError(absl::StrCat("can't open ", Path(directory), ": ", std::strerror(errno)));
  }
  return std::unique_ptr<Acknowledged>(new Acknowledged(Path(directory), fd));
}

Acknowledged::~Acknowledged() {
  close(fd_);
}

void Acknowledged::Note(uint64_t seq) {
  const std::string line = Line(seq);
  // A write that was cut short leaves no valid line, which readers notice.
  (void)!pwrite(fd_, line.data(), line.size(), 0);
}

absl::Status Acknowledged::Check() const {
  constexpr int kLooks = 3;  // A look may meet a write that is half done.
  for (int i = 0; i < kLooks; ++i) {
    if (ReadLine(fd_)) return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(path_,
                                          " was cut or overwritten while the server ran, so nobody could tell at "
                                          "the next start whether the database is whole; leave it as it is and start "
                                          "again"));
}

absl::Status CheckWalThere(const std::string& directory, std::optional<uint64_t> acknowledged) {
  const std::string database = directory + "/luthier.db";
  if (acknowledged || !IsThere(database + "-shm") || IsThere(database + "-wal")) return absl::OkStatus();
  return Damaged(0, absl::StrCat("the end of the database (luthier.db-wal was removed, and so was what ",
                                 Acknowledged::Path(directory),
                                 " said of the newest event: put luthier.db-wal back; if nothing is missed, remove ",
                                 database, "-shm)"));
}

absl::Status CheckAcknowledged(const std::string& directory, uint64_t acknowledged, uint64_t last_seq) {
  if (last_seq >= acknowledged) return absl::OkStatus();
  return Damaged(0, absl::StrCat("the end of the database (it ends with event ", last_seq, ", but event ", acknowledged,
                                 " was acknowledged; if an older copy was put here on purpose, remove ",
                                 Acknowledged::Path(directory), ")"));
}

}  // namespace luthier::storage
