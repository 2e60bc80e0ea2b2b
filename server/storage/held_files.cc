#include "server/storage/held_files.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/log.h"

namespace luthier::storage {
namespace {

constexpr int kExitIoError = 74;
constexpr std::array<const char*, 7> kWritten = {"lock",      "luthier.db",    "luthier.db-wal", "luthier.db-shm",
                                                 "access.db", "access.db-wal", "access.db-shm"};

std::string UserName(uid_t user) {
  std::array<char, 4096> text;
  passwd entry;
  passwd* found = nullptr;
  getpwuid_r(user, &entry, text.data(), text.size(), &found);
  return found == nullptr ? absl::StrCat("user ", user) : std::string(found->pw_name);
}

// `problem` is the errno of the attempt.
absl::Status NotWritable(const std::string& path, const struct stat& info, int problem) {
  const uid_t self = geteuid();
  std::string remedy;
  if (problem == EROFS) {
    remedy = "mount its file system for writing, or choose another data directory";
  } else if (problem == EPERM) {
    remedy = absl::StrCat("its file system forbids it: see lsattr ", path);
  } else if (info.st_uid == self) {
    remedy = absl::StrCat("run: chmod ", S_ISDIR(info.st_mode) ? "u+rwx " : "u+rw ", path);
  } else {
    remedy = absl::StrCat("start as ", UserName(info.st_uid), ", or let root run: chown ", UserName(self), " ", path);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " can't be written by ", UserName(self), ": ", std::strerror(problem), " (its mode is ",
                   absl::StrFormat("%04o", static_cast<unsigned>(info.st_mode & 07777)), ", its owner ",
                   UserName(info.st_uid), "); ", remedy));
}

// `rights` are those of faccessat.
absl::Status CheckPathWritable(const std::string& path, int rights) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::OkStatus();  // It will be made, or fails with its own message.
  if (faccessat(AT_FDCWD, path.c_str(), rights, AT_EACCESS) == 0) return absl::OkStatus();
  return NotWritable(path, info, errno);
}

bool HasContent(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

// Only async-signal-safe calls are allowed: no memory, no locks, no formats.
void OnLostPages(int /*signal*/) {
  constexpr char kText[] =
      "luthierd: SIGBUS: a file that is mapped into memory was cut while the server ran (luthier.db-shm or "
      "access.db-shm "
      "in the data directory), or memory failed; nothing that was acknowledged is lost. Let no other program touch the "
      "data directory and start again; luthier admin doctor says whether it is whole\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(kExitIoError);
}

}  // namespace

absl::Status CheckWritable(const std::string& directory) {
  struct stat info;
  if (stat(directory.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, " is a file, and data is kept in a directory: name another, which will be made"));
  }
  absl::Status status = CheckPathWritable(directory, R_OK | W_OK | X_OK);
  for (const char* name : kWritten) {
    if (status.ok()) status = CheckPathWritable(absl::StrCat(directory, "/", name), R_OK | W_OK);
  }
  return status;
}

absl::Status CheckNothingLost(const std::string& directory) {
  const std::string database = directory + "/luthier.db";
  if (HasContent(database)) return absl::OkStatus();
  std::error_code error;
  const std::string backups = directory + "/backups";
  const std::filesystem::directory_iterator copies(backups, error);
  std::string beside;
  if (HasContent(database + "-wal")) {
    beside = "luthier.db-wal has commits of it";
  } else if (!error && copies != std::filesystem::directory_iterator()) {
    beside = "backups has copies of it";
  } else if (HasContent(directory + "/access.db")) {
    beside = "access.db has its tokens";
  }
  if (beside.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      database, " is missing, but ", beside,
      ": it was moved or removed. Put it back with its -wal file, or restore a backup into a new directory (luthier "
      "admin restore); to begin anew choose another data directory, or move away what is in this one"));
}

absl::Status CheckTokensNotLost(const std::string& directory) {
  const std::string database = directory + "/access.db";
  if (HasContent(database)) return absl::OkStatus();
  std::string beside;
  if (HasContent(database + "-wal")) {
    beside = "access.db-wal";
  } else if (HasContent(directory + "/admin.token")) {
    beside = "admin.token";
  }
  if (beside.empty()) return absl::OkStatus();
  std::error_code error;
  return absl::FailedPreconditionError(absl::StrCat(
      database, std::filesystem::exists(database, error) ? " is empty" : " is missing", ", but ", beside,
      " is there: tokens, projects and the audit were lost. Put it back with its -wal file, or restore a backup into a "
      "new directory (luthier admin restore); to go on without them move ",
      beside, " away, too"));
}

absl::StatusOr<std::unique_ptr<HeldFiles>> HeldFiles::Note(const std::string& directory,
                                                           const std::vector<std::string>& names) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(directory, error).lexically_normal().string();
  // O_PATH: closing such a descriptor drops no lock that the process holds on the file.
  base::Descriptor held(open(absolute.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::unique_ptr<HeldFiles> files(new HeldFiles(absolute, std::move(held)));
  std::vector<std::string> paths = {absolute};
  for (const std::string& name : names) paths.push_back(absl::StrCat(absolute, "/", name));
  for (const std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
    }
    files->files_.push_back({path, info.st_dev, info.st_ino});
  }
  return files;
}

absl::Status HeldFiles::CheckOne(const Identity& file) const {
  struct stat info;
  if (stat(file.path.c_str(), &info) != 0) {
    return Gone(file, errno == ENOENT || errno == ENOTDIR ? "was moved or removed"
                                                          : absl::StrCat("is out of reach: ", std::strerror(errno)));
  }
  if (info.st_dev != file.device || info.st_ino != file.inode) {
    return Gone(file, "is another one now: it was replaced, or a mount covers it,");
  }
  return absl::OkStatus();
}

absl::Status HeldFiles::Check() const {
  for (const Identity& file : files_) {
    const absl::Status status = CheckOne(file);
    if (status.ok()) continue;
    // The directory, which is the first, may have been covered since it was looked at.
    const absl::Status of_directory = CheckOne(files_.front());
    return of_directory.ok() ? status : of_directory;
  }
  struct statvfs system;
  if (statvfs(directory_.c_str(), &system) == 0 && (system.f_flag & ST_RDONLY) != 0) {
    return absl::DataLossError(absl::StrCat(
        "the file system of ", directory_,
        " became read-only while the server ran, so nothing more can be kept; see the system's log for the reason, "
        "mount it for writing and start again"));
  }
  return absl::OkStatus();
}

absl::Status HeldFiles::Gone(const Identity& file, const std::string& what) const {
  const bool directory = file.path == directory_;
  return absl::DataLossError(
      absl::StrCat(directory ? "the data directory " : "", file.path, " ", what,
                   " while the server ran, so nothing more can be kept there; put it back ",
                   directory ? "where it was" : "with the files beside it",
                   " and start again, or restore a backup into a new directory (luthier admin restore)"));
}

void EndForStorage(const absl::Status& why) {
  base::LogError("storage_failed", {{"error", std::string(why.message())}, {"exit", absl::StrCat(kExitIoError)}});
  const std::string line = absl::StrCat(program_invocation_short_name, ": ", why.message(), "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(kExitIoError);
}

void EndAtLostPages() {
  struct sigaction action = {};
  action.sa_handler = OnLostPages;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace luthier::storage
