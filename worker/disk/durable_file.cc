#include "worker/disk/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace luthier::worker {
namespace {

absl::Status Errno(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

bool WriteAll(int fd, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t wrote = write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

}  // namespace

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty() && parent != path) {
    if (const absl::Status status = MakeDirectory(parent); !status.ok()) return status;
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Errno("cannot make the directory", path);
  return absl::OkStatus();
}

absl::Status WriteDurably(const std::string& directory, const std::string& name, absl::string_view content) {
  // The process id keeps two workers that share the directory apart.
  const std::string temporary = absl::StrCat(directory, "/.", name, ".", getpid(), ".tmp");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Errno("cannot write", temporary);
  bool good = WriteAll(fd, content) && fsync(fd) == 0;
  int error = errno;
  if (close(fd) != 0 && good) {
    good = false;
    error = errno;
  }
  const std::string path = directory + "/" + name;
  if (good && rename(temporary.c_str(), path.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (!good) {
    unlink(temporary.c_str());
    errno = error;
    return Errno("cannot write", path);
  }
  const int directory_fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd >= 0) {
    fsync(directory_fd);
    close(directory_fd);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return absl::NotFoundError(absl::StrCat("there is no ", path));
  if (fd < 0) return Errno("cannot read", path);
  std::string content;
  char buffer[1 << 16];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof(buffer))) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    content.append(buffer, static_cast<size_t>(got));
    if (content.size() > limit) break;
  }
  const int error = errno;
  close(fd);
  errno = error;
  if (got < 0) return Errno("cannot read", path);
  if (content.size() > limit) return absl::ResourceExhaustedError(absl::StrCat(path, " is above ", limit, " bytes"));
  return content;
}

}  // namespace luthier::worker
