#ifndef LUTHIER_SERVER_STORAGE_WRITTEN_FILE_H_
#define LUTHIER_SERVER_STORAGE_WRITTEN_FILE_H_

#include <sqlite3.h>

#include <cstdint>

#include "absl/status/status.h"

// Finds that another program cut or overwrote, in place, a database that a connection writes.
namespace luthier::storage {

// Compares the files of a database in WAL mode with what its one writing connection knows of them: SQLite itself
// appends to a WAL that was cut, and answers OK for commits that nobody can read again. One thread at a time, that of
// the connection, outside of transactions; of the process that alone writes the database.
class WrittenFile {
 public:
  // `db` is open, writing or reading, and outlives the object. The database had at least `bytes` once.
  explicit WrittenFile(sqlite3* db, int64_t bytes = 0) : db_(db), bytes_(bytes) {}

  // OK as long as the database file begins with SQLite's header and is as long as at the last check, and the WAL has
  // the frames that SQLite's index of it counts, the newest one with its checksum. To be called before each
  // transaction, since a hole in front of the newest frame is not seen, between its commit and the answer, and after a
  // checkpoint. DATA_LOSS naming the file. It costs some microseconds: two sizes, three small reads.
  absl::Status Check();

  // Returns the size of the database at the last check.
  int64_t bytes() const { return bytes_; }

 private:
  absl::Status CheckDatabase();
  absl::Status CheckWal();

  sqlite3* const db_;
  int64_t bytes_;  // Database's size at the last check.
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_WRITTEN_FILE_H_
