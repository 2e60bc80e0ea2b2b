#ifndef LUTHIER_SERVER_STORAGE_CONNECTION_H_
#define LUTHIER_SERVER_STORAGE_CONNECTION_H_

#include <SQLiteCpp/Database.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/mutex.h"

// Options that the writing and the reading connections have in common.
namespace luthier::storage {

// Longest wait for a lock, in ms. Nothing should ever wait: there is one writer, and readers do not block it. Only
// opening and closing connections lock.
inline constexpr int kBusyTimeoutMs = 5000;

struct ConnectionOptions {
  std::string path;
  std::string vfs;      // Empty: SQLite's default.
  bool writer = false;  // False: read-only.
  bool unsafe_normal_sync = false;
  bool unchecked = false;  // True reads pages whatever their checksums say, to look at damage.
};

// Opens a connection for one thread at a time, in defensive mode, that writes nothing on close. It keeps and checks
// checksums of pages (page_sums.h) and knows those of rows (row_sums.h). Does not create a file except for the writer.
// Errors as ToStatus.
absl::StatusOr<std::unique_ptr<SQLite::Database>> OpenConnection(const ConnectionOptions& options);

// Sets every pragma the design relies on (docs/design/storage.md) and reads each one back. FAILED_PRECONDITION naming
// the first that differs. The writer must be outside a transaction and becomes a WAL connection.
absl::Status SetPragmas(SQLite::Database& db, const ConnectionOptions& options);

// Knows whether storage can still be trusted. Once it failed it stays failed: I/O errors leave the outcome of a write
// unknown, and a sync that failed must not be tried again. Thread-safe.
class Health {
 public:
  // `unsafe_forget` is mutant M11: failures leave no trace.
  explicit Health(bool unsafe_forget) : unsafe_forget_(unsafe_forget) {}
  absl::Status Get() {
    base::MutexLock lock(&mutex_);
    return status_;
  }
  // Keeps the first failure.
  void Fail(const absl::Status& status) {
    base::MutexLock lock(&mutex_);
    if (status_.ok() && !unsafe_forget_) status_ = status;
  }

 private:
  const bool unsafe_forget_;
  base::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_CONNECTION_H_
