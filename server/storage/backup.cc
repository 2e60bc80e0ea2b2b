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
#include "server/storage/acknowledged.h"
#include "server/storage/connection.h"
#include "server/storage/damage.h"
#include "server/storage/data_directory.h"
#include "server/storage/inspect.h"
#include "server/storage/page_sums.h"
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

// Moves a copy that is complete and sound to its final name, durably.
absl::Status Publish(const std::string& temporary, const std::string& path) {
  LUTHIER_RETURN_IF_ERROR(SyncFile(temporary));
  if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(absl::StrCat("rename to ", path));
  return SyncDirectory(std::filesystem::path(path).parent_path().string());
}

// Checks a file that nobody has open.
absl::Status CheckWhole(const std::string& path) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Finding> findings, InspectFile(path));
  return ToStatus(path, findings);
}

absl::Status CopyInto(SQLite::Database& db, const std::string& path) {
  return Guarded([&] {
    SQLite::Statement vacuum(db, "VACUUM INTO ?1");
    vacuum.bindNoCopy(1, path);
    vacuum.exec();
    // SQLite does not write the copy's first page, which says that pages have checksums, first: pages written before it
    // lack theirs.
    return SealPages(path);
  });
}

// `copy` may have any version of the schema.
absl::Status RaiseFence(const std::string& copy) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<SQLite::Database> db,
                           OpenConnection({.path = copy, .vfs = "", .writer = true}));
  return Guarded([&]() -> absl::Status {
    const bool summed =
        db->execAndGet("SELECT count(*) FROM pragma_table_info('counter') WHERE name = 'sum'").getInt() > 0;
    SQLite::Statement raise(
        *db, summed ? "UPDATE counter SET value = value + ?1, sum = row_sum('counter', name, value + ?1) WHERE name ="
                      " 'fence'"
                    : "UPDATE counter SET value = value + ?1 WHERE name = 'fence'");
    raise.bind(1, kRestoredFenceJump);
    return raise.exec() == 1 ? absl::OkStatus() : Damaged(0, "the counter fence");
  });
}

}  // namespace

absl::Status BackUp(SQLite::Database& db, const std::string& path) {
  const std::string temporary = path + ".tmp";
  RemoveWithJournals(temporary);
  absl::Status status = CopyInto(db, temporary);
  if (status.ok()) status = CheckWhole(temporary);
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
    LUTHIER_RETURN_IF_ERROR(CheckWhole(backup_path));
    LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<SQLite::Database> backup,
                             OpenConnection({.path = backup_path, .vfs = ""}));
    LUTHIER_RETURN_IF_ERROR(SchemaVersion(*backup, migrations).status());
    LUTHIER_RETURN_IF_ERROR(CopyInto(*backup, temporary));
    return RaiseFence(temporary);
  });
  // The number acknowledged by another database in this directory does not apply to this one.
  std::error_code ignored;
  if (status.ok()) std::filesystem::remove(Acknowledged::Path(directory), ignored);
  if (status.ok()) status = Publish(temporary, path);
  if (!status.ok()) RemoveWithJournals(temporary);
  return status;
}

}  // namespace luthier::storage
