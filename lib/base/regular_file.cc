#include "lib/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"

namespace luthier::base {
namespace {

absl::Status Problem(const std::string& path) {
  const int problem = errno;
  const std::string text = absl::StrCat(path, ": ", std::strerror(problem));
  return problem == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
}

}  // namespace

absl::StatusOr<FileText> ReadRegularFile(const std::string& path, size_t most) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return Problem(path);
  if (!S_ISREG(info.st_mode)) {
    const char* const kind = S_ISDIR(info.st_mode) ? "folder" : S_ISFIFO(info.st_mode) ? "pipe" : "device or socket";
    return absl::InvalidArgumentError(absl::StrCat(path, " is a ", kind, " and no regular file"));
  }
  FileText result;
  result.mode = info.st_mode;
  std::string& text = result.text;
  // It may grow meanwhile, and its size may be a lie, as in /proc.
  char buffer[1 << 14];
  while (text.size() <= most) {
    const ssize_t got = read(file.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Problem(path);
    if (got == 0) return result;
    text.append(buffer, static_cast<size_t>(got));
  }
  return absl::InvalidArgumentError(absl::StrCat(path, " has more than ", most, " bytes"));
}

}  // namespace luthier::base
