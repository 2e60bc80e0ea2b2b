#ifndef LUTHIER_SERVER_STORAGE_BACKUP_H_
#define LUTHIER_SERVER_STORAGE_BACKUP_H_

#include <SQLiteCpp/Database.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/storage/migrations.h"

namespace luthier::storage {

// Writes the committed state seen by `db` to `path`, one file that needs no other: VACUUM INTO a temporary name,
// InspectFile, sync, rename. Commits go on meanwhile on other connections. An existing `path` is replaced. `db` must
// come from OpenConnection, with the default VFS, outside a transaction. UNAVAILABLE STORAGE_FULL; DATA_LOSS naming
// what is damaged.
absl::Status BackUp(SQLite::Database& db, const std::string& path);

// The distance by which a restored fence jumps, so that no token granted after the backup can match one granted after
// the restore.
inline constexpr int64_t kRestoredFenceJump = int64_t{1} << 32;

// Makes `directory` (new, or without a database) hold the state of `backup_path`, with the fence raised by
// kRestoredFenceJump. FAILED_PRECONDITION when the directory has a database or is in use, or the backup is not ours or
// too new; DATA_LOSS that names what is damaged in the backup.
absl::Status Restore(const std::string& backup_path, const std::string& directory,
                     const std::vector<Migration>& migrations = Migrations());

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_BACKUP_H_
