#include "server/storage/sql.h"

#include <SQLiteCpp/Column.h>
#include <sqlite3.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "server/storage/damage.h"
#include "server/storage/rules.h"

namespace luthier::storage {
namespace {

constexpr absl::Duration kRetryFull = absl::Seconds(5);
constexpr char kLookAtIt[] = "; look with luthier admin doctor what is whole, then start again or restore a backup";

absl::Status StatusOf(int extended_code, absl::string_view message) {
  const std::string text = absl::StrCat(message, " (SQLite ", extended_code, ")");
  if (extended_code == SQLITE_IOERR_DATA) return Damaged(0, absl::StrCat("a page of the database (", text, ")"));
  switch (extended_code & 0xFF) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return absl::OkStatus();
    case SQLITE_FULL: {
      base::ErrorDetail detail;
      detail.reason = base::reason::kStorageFull;
      detail.retry_delay = kRetryFull;
      return base::MakeError(absl::StatusCode::kUnavailable,
                             absl::StrCat("storage: the disk is full; nothing was stored, free some space: ", text),
                             std::move(detail));
    }
    case SQLITE_CORRUPT:
      return Damaged(0, absl::StrCat("a page of the database (", text, ")"));
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
    case SQLITE_MISUSE:
    case SQLITE_ERROR:
    case 0xFF:  // -1: errors of SQLiteCpp itself.
      return Violation(text);
    case SQLITE_IOERR:
      return absl::DataLossError(absl::StrCat(
          "storage: ", text,
          extended_code == SQLITE_IOERR_SHORT_READ
              ? ": a file ends before what was written there, so another program cut it, or the disk lost it"
              : ": see the system's log for its reason",
          kLookAtIt));
    case SQLITE_NOTADB:
      return absl::DataLossError(
          absl::StrCat("storage: ", text, ": another program cut or overwrote a file, or the disk lost it", kLookAtIt));
    default:
      return absl::DataLossError(absl::StrCat("storage: ", text, kLookAtIt));
  }
}

int SizeOf(absl::string_view bytes) {
  LUTHIER_CHECK(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()));
  return static_cast<int>(bytes.size());
}

}  // namespace

absl::Status ToStatus(const SQLite::Exception& error) {
  const int extended = error.getExtendedErrorCode();
  return StatusOf(extended != SQLITE_OK ? extended : error.getErrorCode(), error.what());
}

absl::Status ToStatus(int code, sqlite3* db) {
  return StatusOf(code, db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

void Bind(SQLite::Statement& statement, int index, int64_t value) {
  statement.bind(index, value);
}

void Bind(SQLite::Statement& statement, int index, uint64_t value) {
  LUTHIER_CHECK(value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  statement.bind(index, static_cast<int64_t>(value));
}

void Bind(SQLite::Statement& statement, int index, std::optional<double> value) {
  if (value) {
    statement.bind(index, *value);
  } else {
    statement.bind(index);
  }
}

void BindText(SQLite::Statement& statement, int index, const std::string& value) {
  SizeOf(value);
  statement.bindNoCopy(index, value);
}

void BindName(SQLite::Statement& statement, int index, const char* literal) {
  statement.bindNoCopy(index, literal);
}

void BindBlob(SQLite::Statement& statement, int index, absl::string_view value) {
  statement.bindNoCopy(index, value.empty() ? "" : value.data(), SizeOf(value));
}

void BindNull(SQLite::Statement& statement, int index) {
  statement.bind(index);
}

int64_t Int64Column(const SQLite::Statement& statement, int column) {
  return statement.getColumn(column).getInt64();
}

uint64_t Uint64Column(const SQLite::Statement& statement, int column) {
  return static_cast<uint64_t>(Int64Column(statement, column));
}

std::optional<double> DoubleColumn(const SQLite::Statement& statement, int column) {
  if (statement.isColumnNull(column)) return std::nullopt;
  return statement.getColumn(column).getDouble();
}

absl::string_view BytesColumn(const SQLite::Statement& statement, int column) {
  const SQLite::Column value = statement.getColumn(column);
  const void* bytes = value.getBlob();
  return absl::string_view(static_cast<const char*>(bytes), static_cast<size_t>(value.getBytes()));
}

}  // namespace luthier::storage
