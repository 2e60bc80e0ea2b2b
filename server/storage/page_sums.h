#ifndef LUTHIER_SERVER_STORAGE_PAGE_SUMS_H_
#define LUTHIER_SERVER_STORAGE_PAGE_SUMS_H_

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Checksums of pages. The last eight bytes of each page of a database file, which SQLite leaves alone, hold a hash of
// the page and its number. A VFS in front of another writes them and, whenever a page is read from the file, checks
// them: a page that was changed, zeroed, cut off or exchanged for another gives SQLITE_IOERR_DATA, never wrong rows.
// Pages in the WAL have checksums of SQLite's own, which it checks when it recovers them.
namespace luthier::storage {

inline constexpr int kPageBytes = 4096;  // All our databases have pages of this size.
inline constexpr int kPageSumBytes = 8;

// Returns the name of the VFS in front of `base` (empty: SQLite's default one), which must be registered. Databases
// without room for checksums pass through it unchanged.
absl::StatusOr<std::string> SummedVfs(const std::string& base);

// Makes an empty database, or the next VACUUM, leave room for checksums.
absl::Status ReservePageSums(sqlite3* db);
// True if the open database has them. It must be within or after a read.
bool HasPageSums(sqlite3* db);

// Writes the checksums of all pages of a file that nobody has open. A file without room for them is left as it is.
absl::Status SealPages(const std::string& path);

// Result of reading a file past SQLite; nobody may write the file meanwhile.
struct PageScan {
  int64_t pages = 0;
  bool summed = false;         // True if it has room for checksums, which then are checked.
  std::vector<int64_t> wrong;  // Numbers of pages, from 1.
  bool cut_off = false;        // True if the file is shorter than its header says.
};
absl::StatusOr<PageScan> ScanPages(const std::string& path);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_PAGE_SUMS_H_
