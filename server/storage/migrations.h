#ifndef LUTHIER_SERVER_STORAGE_MIGRATIONS_H_
#define LUTHIER_SERVER_STORAGE_MIGRATIONS_H_

#include <SQLiteCpp/Database.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace luthier::storage {

// One step of the schema: the SQL text of migrations/<number>_<what>.sql, which ends by setting user_version to its
// number. Steps that were released never change.
struct Migration {
  int version = 0;
  std::string name;
  std::string sql;
};

// Returns all migrations, version 1, 2, …, as built into the program.
std::vector<Migration> Migrations();

// Returns the version of an open database; 0: it is empty. FAILED_PRECONDITION for one that is not empty and not ours,
// or is newer than the last of `migrations`.
absl::StatusOr<int> SchemaVersion(SQLite::Database& db, const std::vector<Migration>& migrations);

// Applies every migration above `from`, each in a transaction of its own (from 0: all in one) that also checks all
// foreign keys. An error leaves the database at the last version that was reached. Foreign keys are left off.
absl::Status Migrate(SQLite::Database& db, const std::vector<Migration>& migrations, int from);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_MIGRATIONS_H_
