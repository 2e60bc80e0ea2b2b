#include "server/storage/migrations.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "server/storage/data_directory.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

int UserVersion(SQLite::Database& db) {
  return db.execAndGet("PRAGMA user_version").getInt();
}

// To be called within a transaction.
absl::Status ApplyOne(SQLite::Database& db, const Migration& migration) {
  db.exec(migration.sql);
  if (UserVersion(db) != migration.version) {
    return absl::InternalError(absl::StrCat(migration.name, " does not set user_version to ", migration.version));
  }
  SQLite::Statement foreign_keys(db, "PRAGMA foreign_key_check");
  if (foreign_keys.executeStep()) {
    return absl::InternalError(absl::StrCat(migration.name, " leaves rows of ", foreign_keys.getColumn(0).getString(),
                                            " without the rows they refer to"));
  }
  return absl::OkStatus();
}

absl::Status Execute(SQLite::Database& db, const char* sql) {
  return Guarded([&] {
    db.exec(sql);
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<int> SchemaVersion(SQLite::Database& db, const std::vector<Migration>& migrations) {
  LUTHIER_CHECK(!migrations.empty());
  return Guarded([&]() -> absl::StatusOr<int> {
    const int version = UserVersion(db);
    const int application = db.execAndGet("PRAGMA application_id").getInt();
    if (version == 0 && application == 0 && db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0) return 0;
    if (application != kApplicationId || version < 1) {
      return absl::FailedPreconditionError(absl::StrCat(db.getFilename(), " is not a database of luthier"));
    }
    if (!db.tableExists("study")) {
      return absl::FailedPreconditionError(absl::StrCat(
          db.getFilename(), " is a database of tokens (access.db), not of studies; put the right file back"));
    }
    if (version > migrations.back().version) {
      return absl::FailedPreconditionError(absl::StrCat(
          db.getFilename(), " has schema version ", version, "; this program knows versions up to ",
          migrations.back().version, ". Run a newer program, or restore a backup made before the upgrade"));
    }
    return version;
  });
}

absl::Status Migrate(SQLite::Database& db, const std::vector<Migration>& migrations, int from) {
  // A table that others refer to can only be rebuilt without enforcement; ApplyOne checks the keys afterwards.
  LUTHIER_RETURN_IF_ERROR(Execute(db, "PRAGMA foreign_keys = OFF"));
  // A new database is created whole or not at all: a half-made one would have to be backed up first.
  const bool together = from == 0;
  for (const Migration& migration : migrations) {
    if (migration.version <= from) continue;
    const bool first = migration.version == migrations.front().version;
    const bool last = migration.version == migrations.back().version;
    absl::Status status;
    if (!together || first) status = Execute(db, "BEGIN IMMEDIATE");
    if (status.ok()) status = Guarded([&] { return ApplyOne(db, migration); });
    if (status.ok() && (!together || last)) status = Execute(db, "COMMIT");
    if (!status.ok()) {
      if (sqlite3_get_autocommit(db.getHandle()) == 0) status.Update(Execute(db, "ROLLBACK"));
      return absl::Status(status.code(), absl::StrCat("migration ", migration.name, " failed: ", status.message()));
    }
    base::LogInfo("storage_migrated", {{"file", db.getFilename()}, {"version", absl::StrCat(migration.version)}});
  }
  return absl::OkStatus();
}

}  // namespace luthier::storage
