#include "lib/data/data_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"

namespace luthier::data {
namespace {

constexpr size_t kMaxNameBytes = 4096;
constexpr int kMaxListed = 2000;

// Opens the path without openat2: component by component, no links, no "..".
int OpenStepwise(int root, const std::string& name, int flags) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/', absl::SkipEmpty());
  UniqueFd directory;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "..") {
      errno = EXDEV;
      return -1;
    }
    const bool last = i + 1 == parts.size();
    const int fd = openat(i == 0 ? root : directory.get(), parts[i].c_str(),
                          (last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW);
    if (fd < 0 || last) return fd;
    directory = UniqueFd(fd);
  }
  errno = ENOENT;
  return -1;
}

int OpenBeneath(int root, const std::string& name, int flags) {
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  int64_t fd = -1;
  // EAGAIN: a rename elsewhere in the tree raced with "..".
  for (int tries = 0; tries < 10; ++tries) {
    fd = syscall(SYS_openat2, root, name.c_str(), &how, sizeof(how));
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  // Sandboxes that do not know the call answer EPERM.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return OpenStepwise(root, name, flags);
  return static_cast<int>(fd);
}

// Returns the closest name in the folder where `name` was looked for.
std::string Suggestion(int root, const std::string& name) {
  const size_t slash = name.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : name.substr(0, slash);
  const int fd = OpenBeneath(root, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return "";
  DIR* directory = fdopendir(fd);
  if (directory == nullptr) {
    close(fd);
    return "";
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    if (names.size() >= kMaxListed) break;
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  const std::string word = slash == std::string::npos ? name : name.substr(slash + 1);
  for (const char* extension : {".gz", ".xz"}) {
    if (std::find(names.begin(), names.end(), word + extension) != names.end()) {
      return absl::StrCat(" (did you mean \"", word, extension, "\"?)");
    }
  }
  return base::DidYouMean(word, names);
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<DataRoot> DataRoot::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("data root ", base::Quote(path), " cannot be opened"));
  }
  return DataRoot(path, UniqueFd(fd));
}

absl::StatusOr<UniqueFd> DataRoot::OpenFile(absl::string_view name) const {
  const std::string quoted = base::Quote(name);
  if (name.empty()) return absl::InvalidArgumentError("data set name is empty; give a path below the data root");
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("data set name ", quoted, " is longer than 4096 bytes"));
  }
  if (name.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("data set name ", quoted, " contains a zero byte"));
  }
  if (name[0] == '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("data set name ", quoted, " is absolute; give a path relative to the worker's data root"));
  }
  const std::string path(name);
  // Non-blocking, so that opening a pipe cannot hang; regular files ignore it.
  const int raw = OpenBeneath(fd_.get(), path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (raw < 0) {
    const int error = errno;
    switch (error) {
      case EXDEV:
      case ELOOP:
        return absl::InvalidArgumentError(
            absl::StrCat("data set name ", quoted, " leads out of the data root; copy the data below it"));
      case ENOENT:
      case ENOTDIR:
        return absl::NotFoundError(
            absl::StrCat("there is no data set ", quoted, " below the data root", Suggestion(fd_.get(), path)));
      default:
        return absl::ErrnoToStatus(error, absl::StrCat("data set ", quoted, " cannot be opened"));
    }
  }
  UniqueFd fd(raw);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("data set ", quoted));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("data set ", quoted, " is not a regular file",
                                                   S_ISDIR(info.st_mode) ? " but a folder; name a file in it" : ""));
  }
  return fd;
}

}  // namespace luthier::data
