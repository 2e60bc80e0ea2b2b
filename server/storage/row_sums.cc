#include "server/storage/row_sums.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/hash.h"

namespace luthier::storage {
namespace {

constexpr size_t kKeptBytes = size_t{1} << 16;

void AddNumber(uint64_t bits, std::string* out) {
  for (int i = 0; i < 8; ++i) out->push_back(static_cast<char>(bits >> (8 * i) & 0xFF));
}

void AddValue(sqlite3_value* value, std::string* out) {
  const int type = sqlite3_value_type(value);
  out->push_back(static_cast<char>(type));
  switch (type) {
    case SQLITE_INTEGER:
      AddNumber(static_cast<uint64_t>(sqlite3_value_int64(value)), out);
      return;
    case SQLITE_FLOAT: {
      const double number = sqlite3_value_double(value);
      uint64_t bits;
      std::memcpy(&bits, &number, sizeof(bits));
      AddNumber(bits, out);
      return;
    }
    case SQLITE_TEXT:
    case SQLITE_BLOB: {
      // Text is read as bytes, which need not be UTF-8.
      const void* const bytes =
          type == SQLITE_TEXT ? static_cast<const void*>(sqlite3_value_text(value)) : sqlite3_value_blob(value);
      const auto size = static_cast<size_t>(sqlite3_value_bytes(value));
      AddNumber(size, out);
      if (size > 0) out->append(static_cast<const char*>(bytes), size);
      return;
    }
    default:
      return;  // NULL
  }
}

void RowSum(sqlite3_context* context, int count, sqlite3_value** values) {
  thread_local std::string row;
  row.clear();
  for (int i = 0; i < count; ++i) AddValue(values[i], &row);
  sqlite3_result_int64(context, static_cast<sqlite3_int64>(base::Hash64(row)));
  if (row.capacity() > kKeptBytes) std::string().swap(row);
}

}  // namespace

absl::Status RegisterRowSums(sqlite3* db) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
  const int code = sqlite3_create_function_v2(db, "row_sum", -1, flags, nullptr, RowSum, nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("SQLite refuses a function: ", sqlite3_errstr(code)));
}

}  // namespace luthier::storage
