#include "server/storage/data_directory.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::storage {
namespace {

constexpr mode_t kPrivateDirectory = 0700;
constexpr mode_t kPrivateFile = 0600;
constexpr int kHeaderBytes = 512;  // SQLite's header is 100 bytes; a sector shows whether its first write ever arrived.
constexpr int kApplicationIdOffset = 68;

std::string Errno(const std::string& what) {
  return absl::StrCat(what, ": ", std::strerror(errno));
}

// Reads magic numbers of statfs(2). A bind mount or overlay on a local disk has the local one's or its own, and passes.
const char* NetworkFileSystem(int64_t type) {
  static constexpr std::array<std::pair<int64_t, const char*>, 10> kNetwork = {{{0x6969, "NFS"},
                                                                                {0xFF534D42, "CIFS"},
                                                                                {0xFE534D42, "SMB2"},
                                                                                {0x517B, "SMB"},
                                                                                {0x01021997, "9p"},
                                                                                {0x65735546, "FUSE"},
                                                                                {0x00C36400, "Ceph"},
                                                                                {0x5346414F, "AFS"},
                                                                                {0x73757245, "Coda"},
                                                                                {0x47504653, "GPFS"}}};
  for (const auto& [magic, name] : kNetwork) {
    if ((type & 0xFFFFFFFF) == magic) return name;
  }
  return nullptr;
}

absl::Status NotOurs(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " ", what, "; it was left untouched. Choose another data directory, or move that file away"));
}

// A file opened through a VFS for reading, closed at the end of its life.
class VfsFile {
 public:
  explicit VfsFile(sqlite3_vfs* vfs) : memory_((static_cast<size_t>(vfs->szOsFile) + 7) / 8) {}
  ~VfsFile() {
    if (file()->pMethods != nullptr) file()->pMethods->xClose(file());
  }
  VfsFile(const VfsFile&) = delete;
  VfsFile& operator=(const VfsFile&) = delete;
  sqlite3_file* file() { return reinterpret_cast<sqlite3_file*>(memory_.data()); }

 private:
  std::vector<uint64_t> memory_;  // Zeroed, aligned.
};

}  // namespace

std::string DatabasePath(const std::string& directory) {
  return directory + "/luthier.db";
}
std::string BackupsPath(const std::string& directory) {
  return directory + "/backups";
}

absl::Status CheckLocalFileSystem(const std::string& directory) {
  struct statfs info;
  if (statfs(directory.c_str(), &info) != 0) return absl::FailedPreconditionError(Errno(directory));
  const char* name = NetworkFileSystem(static_cast<int64_t>(info.f_type));
  if (name == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the data directory ", directory, " is on a network file system (", name,
                   "), where a database can be damaged or lose what was acknowledged; use a local disk"));
}

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::FailedPreconditionError(Errno(directory));
  const bool synced = fsync(fd) == 0;
  absl::Status status = synced ? absl::OkStatus() : absl::DataLossError(Errno(absl::StrCat("sync of ", directory)));
  close(fd);
  return status;
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& directory) {
  if (mkdir(directory.c_str(), kPrivateDirectory) == 0) {
    const std::string parent = std::filesystem::path(directory).lexically_normal().parent_path().string();
    LUTHIER_RETURN_IF_ERROR(SyncDirectory(parent.empty() ? "." : parent));
  } else if (errno != EEXIST) {
    return absl::FailedPreconditionError(Errno(absl::StrCat("can't make the data directory ", directory)));
  }
  const std::string path = directory + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivateFile);
  if (fd < 0) return absl::FailedPreconditionError(Errno(absl::StrCat("can't open ", path)));
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return absl::FailedPreconditionError(Errno(absl::StrCat("can't lock ", path)));
    char text[32] = {};
    const ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
    int64_t pid = 0;
    const bool known = size > 0 && absl::SimpleAtoi(absl::StripSuffix(text, "\n"), &pid);
    return absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", directory, " is in use by ", known ? absl::StrCat("process ", pid) : "another process",
        ", which holds ", path, "; stop it first or choose another data directory"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return absl::FailedPreconditionError(Errno(absl::StrCat("can't write ", path)));
  }
  return lock;
}

DirectoryLock::~DirectoryLock() {
  close(fd_);
}

absl::StatusOr<DatabaseKind> ProbeDatabase(const std::string& path, const char* vfs_name) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name);
  if (vfs == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no SQLite VFS ", vfs_name));
  const auto exists = [vfs](const std::string& name) {
    int found = 0;
    return vfs->xAccess(vfs, name.c_str(), SQLITE_ACCESS_EXISTS, &found) == SQLITE_OK && found != 0;
  };
  if (!exists(path)) return DatabaseKind::kNew;
  VfsFile opened(vfs);
  // xOpen needs a name followed by an empty list of URI parameters.
  const std::string name = path + std::string(2, '\0');
  int code = vfs->xOpen(vfs, name.c_str(), opened.file(), SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, nullptr);
  if (code != SQLITE_OK) {
    return absl::FailedPreconditionError(absl::StrCat("can't open ", path, ": ", sqlite3_errstr(code)));
  }
  sqlite3_int64 size = 0;
  code = opened.file()->pMethods->xFileSize(opened.file(), &size);
  if (code == SQLITE_OK && size == 0) return DatabaseKind::kNew;
  std::array<unsigned char, kHeaderBytes> header{};
  const int bytes = static_cast<int>(std::min<sqlite3_int64>(size, kHeaderBytes));
  if (code == SQLITE_OK) code = opened.file()->pMethods->xRead(opened.file(), header.data(), bytes, 0);
  if (code != SQLITE_OK) return absl::DataLossError(absl::StrCat("can't read ", path, ": ", sqlite3_errstr(code)));

  // The header reaches the disk in one sector together with the tables' root. So a creation that was cut short left
  // zeros, and a journal that says that there was nothing before.
  if (std::all_of(header.begin(), header.end(), [](unsigned char c) { return c == 0; })) {
    if (exists(path + "-journal")) return DatabaseKind::kNew;
    return NotOurs(path, "begins with zeros: it is damaged, or not a database");
  }
  constexpr char kMagic[] = "SQLite format 3";  // 16 bytes with the final zero.
  if (bytes < kHeaderBytes || std::memcmp(header.data(), kMagic, sizeof(kMagic)) != 0) {
    return NotOurs(path, "is not a SQLite database");
  }
  uint32_t application = 0;
  for (int i = 0; i < 4; ++i) application = application << 8 | header[static_cast<size_t>(kApplicationIdOffset + i)];
  if (application != static_cast<uint32_t>(kApplicationId))
    return NotOurs(path, "is a SQLite database of another program");
  return DatabaseKind::kOurs;
}

}  // namespace luthier::storage
