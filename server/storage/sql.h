#ifndef LUTHIER_SERVER_STORAGE_SQL_H_
#define LUTHIER_SERVER_STORAGE_SQL_H_

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// The border to SQLite. Exceptions become statuses here and nowhere else. The status depends on the result code, never
// on a text.
namespace luthier::storage {

// FULL becomes UNAVAILABLE STORAGE_FULL with a retry delay: the transaction can be rolled back. IOERR_DATA and CORRUPT
// become Damaged (damage.h): what a statement needs is not what was written. CONSTRAINT, TOOBIG, MISMATCH, RANGE,
// MISUSE, ERROR and SQLiteCpp's own errors become INTERNAL BUG: our statement or data is wrong. All others (IOERR,
// NOTADB, NOMEM, BUSY, …) become DATA_LOSS: what is stored is unknown.
absl::Status ToStatus(const SQLite::Exception& error);
// Does the same for a result code of sqlite3_*; `db` may be null. SQLITE_OK, ROW and DONE give OK.
absl::Status ToStatus(int code, sqlite3* db);

// Runs f, which returns Status or StatusOr.
template <typename F>
auto Guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const SQLite::Exception& error) {
    return ToStatus(error);
  }
}

// Resets a cached statement, however its use ends. A statement that is not reset keeps its read transaction open, and
// with it its connection's view of the past.
class ResetGuard {
 public:
  explicit ResetGuard(SQLite::Statement* statement) : statement_(statement) {}
  ~ResetGuard() { statement_->tryReset(); }
  ResetGuard(const ResetGuard&) = delete;
  ResetGuard& operator=(const ResetGuard&) = delete;

 private:
  SQLite::Statement* const statement_;
};

// Binds and reads parameters and columns by position. Text and blobs are borrowed: they must live until the statement
// was stepped. Unsigned numbers must be below 2^63 (rules.h).
void Bind(SQLite::Statement& statement, int index, int64_t value);
void Bind(SQLite::Statement& statement, int index, uint64_t value);
void Bind(SQLite::Statement& statement, int index, std::optional<double> value);
void BindText(SQLite::Statement& statement, int index, const std::string& value);
void BindName(SQLite::Statement& statement, int index, const char* literal);
void BindBlob(SQLite::Statement& statement, int index, absl::string_view value);
void BindNull(SQLite::Statement& statement, int index);

int64_t Int64Column(const SQLite::Statement& statement, int column);
uint64_t Uint64Column(const SQLite::Statement& statement, int column);
std::optional<double> DoubleColumn(const SQLite::Statement& statement, int column);
// Returns text or a blob, valid until the next step or reset.
absl::string_view BytesColumn(const SQLite::Statement& statement, int column);
inline std::string StringColumn(const SQLite::Statement& statement, int column) {
  return std::string(BytesColumn(statement, column));
}

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_SQL_H_
