#include "server/storage/backup.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/storage/data_directory.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

absl::Status FileError(const std::string& what) {
  const absl::StatusCode code = errno == ENOSPC ? absl::StatusCode::kUnavailable : absl::StatusCode::kDataLoss;
  return base::MakeError(code, errno == ENOSPC ? base::reason::kStorageFull : "",
                         absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status SyncFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return FileError(path);
  const bool synced = fsync(fd) == 0;
  absl::Status status = synced ? absl::OkStatus() : FileError(absl::StrCat("sync of ", path));
  close(fd);
  return status;
}

void RemoveWithJournals(const std::string& path) {
  std::error_code ignored;
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) std::filesystem::remove(path + suffix, ignored);
}

// The copy is complete and sound, and durable under its final name.
absl::Status Publish(const std::string& temporary, const std::string& path) {
  LUTHIER_RETURN_IF_ERROR(SyncFile(temporary));
  if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(absl::StrCat("rename to ", path));
  return SyncDirectory(std::filesystem::path(path).parent_path().string());
}

absl::Status CheckIntegrity(const std::string& path) {
  return Guarded([&]() -> absl::Status {
    SQLite::Database db(path, SQLite::OPEN_READONLY | SQLITE_OPEN_NOMUTEX);
    const std::string result = db.execAndGet("PRAGMA integrity_check(1)").getString();
    if (result == "ok") return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path, " is damaged: ", result));
  });
}

absl::Status CopyInto(SQLite::Database& db, const std::string& path) {
  return Guarded([&] {
    SQLite::Statement vacuum(db, "VACUUM INTO ?1");
    vacuum.bindNoCopy(1, path);
    vacuum.exec();
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status BackUp(SQLite::Database& db, const std::string& path) {
  const std::string temporary = path + ".tmp";
  RemoveWithJournals(temporary);
  absl::Status status = CopyInto(db, temporary);
  if (status.ok()) status = CheckIntegrity(temporary);
  if (status.ok()) status = Publish(temporary, path);
  if (!status.ok()) RemoveWithJournals(temporary);
  return status;
}

absl::Status Restore(const std::string& backup_path, const std::string& directory,
                     const std::vector<Migration>& migrations) {
  LUTHIER_ASSIGN_OR_RETURN(const DatabaseKind kind, ProbeDatabase(backup_path, nullptr));
  if (kind != DatabaseKind::kOurs) {
    return absl::FailedPreconditionError(absl::StrCat("there is no backup in ", backup_path));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock, DirectoryLock::Acquire(directory));
  const std::string path = DatabasePath(directory);
  for (const char* suffix : {"", "-wal", "-journal"}) {
    if (std::filesystem::exists(path + suffix)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, suffix, " exists; restore into a new directory, so that nothing is overwritten"));
    }
  }
  const std::string temporary = path + ".restore";
  RemoveWithJournals(temporary);
  absl::Status status = Guarded([&]() -> absl::Status {
    SQLite::Database backup(backup_path, SQLite::OPEN_READONLY | SQLITE_OPEN_NOMUTEX);
    LUTHIER_RETURN_IF_ERROR(SchemaVersion(backup, migrations).status());
    LUTHIER_RETURN_IF_ERROR(CheckIntegrity(backup_path));
    LUTHIER_RETURN_IF_ERROR(CopyInto(backup, temporary));
    SQLite::Database copy(temporary, SQLite::OPEN_READWRITE | SQLITE_OPEN_NOMUTEX);
    SQLite::Statement raise(copy, "UPDATE counter SET value = value + ?1 WHERE name = 'fence'");
    raise.bind(1, kRestoredFenceJump);
    raise.exec();
    return absl::OkStatus();
  });
  if (status.ok()) status = Publish(temporary, path);
  if (!status.ok()) RemoveWithJournals(temporary);
  return status;
}

}  // namespace luthier::storage
