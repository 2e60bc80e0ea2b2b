#ifndef LUTHIER_LIB_DATA_DATA_ROOT_H_
#define LUTHIER_LIB_DATA_DATA_ROOT_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::data {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// The one folder below which data sets may be named. Whatever the name (.., absolute paths, symbolic links that lead
// out, /proc links), nothing outside is opened: the kernel resolves the whole path with openat2(RESOLVE_BENEATH), so
// there is no window between check and use. Where the kernel lacks openat2, symbolic links are refused altogether.
// Thread-safe.
class DataRoot {
 public:
  // `path` must be a directory: returns NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT otherwise.
  static absl::StatusOr<DataRoot> Open(const std::string& path);

  // Opens the regular file `name`, relative to the root, for reading. Returns INVALID_ARGUMENT for an empty or absolute
  // name, for a name that leads out of the root, or if it is not a regular file; NOT_FOUND (with the closest existing
  // name); PERMISSION_DENIED.
  absl::StatusOr<UniqueFd> OpenFile(absl::string_view name) const;

  const std::string& path() const { return path_; }

 private:
  DataRoot(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_DATA_ROOT_H_
