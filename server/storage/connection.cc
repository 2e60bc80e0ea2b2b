#include "server/storage/connection.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "server/storage/page_sums.h"
#include "server/storage/row_sums.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

absl::Status Configure(SQLite::Database& db, int what, int wanted, const char* name) {
  int got = -1;
  const int code = sqlite3_db_config(db.getHandle(), what, wanted, &got);
  if (code == SQLITE_OK && got == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("this SQLite (", sqlite3_libversion(), ") can't set ", name));
}

struct Pragma {
  const char* set;
  const char* get;
  const char* wanted;
  bool may_be_absent = false;
};

// All pragmas but the three that differ between connections. The writer itself checkpoints the WAL
// (docs/design/storage.md).
constexpr std::array<Pragma, 7> kPragmas = {{
    {"PRAGMA foreign_keys = ON", "PRAGMA foreign_keys", "1"},
    {"PRAGMA trusted_schema = OFF", "PRAGMA trusted_schema", "0"},
    {"PRAGMA cell_size_check = ON", "PRAGMA cell_size_check", "1"},
    {"PRAGMA mmap_size = 0", "PRAGMA mmap_size", "0", true},  // A VFS without memory mapping returns no row.
    {"PRAGMA wal_autocheckpoint = 0", "PRAGMA wal_autocheckpoint", "0"},
    {"PRAGMA journal_size_limit = 67108864", "PRAGMA journal_size_limit", "67108864"},
    {"PRAGMA temp_store = MEMORY", "PRAGMA temp_store", "2"},
}};
// Every connection has a cache of its own, and the system caches the file, too: readers need few pages.
constexpr Pragma kWriterCache = {"PRAGMA cache_size = -16384", "PRAGMA cache_size", "-16384"};
constexpr Pragma kReaderCache = {"PRAGMA cache_size = -4096", "PRAGMA cache_size", "-4096"};
constexpr Pragma kWal = {"PRAGMA journal_mode = WAL", "PRAGMA journal_mode", "wal"};
constexpr Pragma kFull = {"PRAGMA synchronous = FULL", "PRAGMA synchronous", "2"};
constexpr Pragma kNormal = {"PRAGMA synchronous = NORMAL", "PRAGMA synchronous", "1"};
constexpr Pragma kQueryOnly = {"PRAGMA query_only = ON", "PRAGMA query_only", "1"};

// Sets and checks a pragma. May throw.
absl::Status Set(SQLite::Database& db, const Pragma& pragma) {
  // exec() works for pragmas that return a row and for those that do not.
  db.exec(pragma.set);
  SQLite::Statement get(db, pragma.get);
  const bool present = get.executeStep();
  const std::string got = present ? get.getColumn(0).getString() : "nothing";
  if (got == pragma.wanted || (!present && pragma.may_be_absent)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(db.getFilename(), ": after \"", pragma.set, "\" SQLite ",
                                                    sqlite3_libversion(), " reports ", got, ", not ", pragma.wanted));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SQLite::Database>> OpenConnection(const ConnectionOptions& options) {
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<SQLite::Database>> {
    const int mode = options.writer ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    std::string vfs = options.vfs;
    if (!options.unchecked) {
      LUTHIER_ASSIGN_OR_RETURN(vfs, SummedVfs(options.vfs));
    }
    auto db = std::make_unique<SQLite::Database>(options.path, mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                                 kBusyTimeoutMs, vfs);
    LUTHIER_RETURN_IF_ERROR(RegisterRowSums(db->getHandle()));
    LUTHIER_RETURN_IF_ERROR(Configure(*db, SQLITE_DBCONFIG_DEFENSIVE, 1, "defensive mode"));
    LUTHIER_RETURN_IF_ERROR(Configure(*db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, "no checkpoint on close"));
    LUTHIER_RETURN_IF_ERROR(Configure(*db, SQLITE_DBCONFIG_DQS_DML, 0, "strict quotes"));
    LUTHIER_RETURN_IF_ERROR(Configure(*db, SQLITE_DBCONFIG_DQS_DDL, 0, "strict quotes"));
    return db;
  });
}

absl::Status SetPragmas(SQLite::Database& db, const ConnectionOptions& options) {
  return Guarded([&]() -> absl::Status {
    if (options.writer) LUTHIER_RETURN_IF_ERROR(Set(db, kWal));
    for (const Pragma& pragma : kPragmas) LUTHIER_RETURN_IF_ERROR(Set(db, pragma));
    LUTHIER_RETURN_IF_ERROR(Set(db, options.writer ? kWriterCache : kReaderCache));
    LUTHIER_RETURN_IF_ERROR(Set(db, options.unsafe_normal_sync ? kNormal : kFull));
    return options.writer ? absl::OkStatus() : Set(db, kQueryOnly);
  });
}

}  // namespace luthier::storage
