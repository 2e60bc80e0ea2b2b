#ifndef LUTHIER_SERVER_STORAGE_ACKNOWLEDGED_H_
#define LUTHIER_SERVER_STORAGE_ACKNOWLEDGED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace luthier::storage {

// DIR/acknowledged holds the seq of the newest event that was committed and synced. SQLite takes a WAL whose end is
// damaged, or that is gone, for one that ends sooner; this file shows the difference. It is written after each commit
// and never synced, so after a power cut it may lag behind the database, but it is never ahead of it. Not thread-safe.
class Acknowledged {
 public:
  static std::string Path(const std::string& directory);
  // Returns what the file says. Nothing: there is no file, or it is damaged itself, which is logged.
  static std::optional<uint64_t> Read(const std::string& directory);
  // FAILED_PRECONDITION if the file can't be made.
  static absl::StatusOr<std::unique_ptr<Acknowledged>> Open(const std::string& directory);
  ~Acknowledged();
  Acknowledged(const Acknowledged&) = delete;
  Acknowledged& operator=(const Acknowledged&) = delete;

  // Writes `seq`. Errors do no harm: the file lags behind.
  void Note(uint64_t seq);
  // Returns DATA_LOSS once the file was cut or overwritten since the first Note. On any thread.
  absl::Status Check() const;

 private:
  Acknowledged(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  const std::string path_;
  const int fd_;
};

// Returns DATA_LOSS if the database has certainly lost its WAL and its content is unknown: SQLite leaves luthier.db-shm
// only beside a WAL, and `acknowledged` is not known. To be called before the database is opened, which makes a WAL.
absl::Status CheckWalThere(const std::string& directory, std::optional<uint64_t> acknowledged);

// Returns DATA_LOSS, saying how many events are gone and what to do, if the database ends before `acknowledged`.
absl::Status CheckAcknowledged(const std::string& directory, uint64_t acknowledged, uint64_t last_seq);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_ACKNOWLEDGED_H_
