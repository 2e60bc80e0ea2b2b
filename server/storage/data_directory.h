#ifndef LUTHIER_SERVER_STORAGE_DATA_DIRECTORY_H_
#define LUTHIER_SERVER_STORAGE_DATA_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The directory that one server owns: DIR/luthier.db with SQLite's -wal and -shm beside it, DIR/lock, DIR/backups.
namespace luthier::storage {

inline constexpr int32_t kApplicationId = 0x4C555448;  // "LUTH", in the header of each database of ours.

std::string DatabasePath(const std::string& directory);
std::string BackupsPath(const std::string& directory);

// FAILED_PRECONDITION if the directory is on a network file system (NFS, SMB, 9p, FUSE, …), where locks and syncs do
// not promise what SQLite needs.
absl::Status CheckLocalFileSystem(const std::string& directory);

// Exclusive right to a data directory, as long as the object lives: an flock on DIR/lock, which the kernel drops when
// the process ends in whatever way. The file holds the owner's process id, for people.
class DirectoryLock {
 public:
  // Makes the directory (mode 0700, its parents must exist). FAILED_PRECONDITION naming the holder while another has
  // it.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  const int fd_;
};

enum class DatabaseKind {
  kNew,  // There is no file, or an empty one, or one whose creation was cut short.
  kOurs,
};

// Reads the first bytes of the file through the VFS (null: the default one), and nothing else: no journal is played
// back, nothing is created. FAILED_PRECONDITION for a file that is not a database of ours; DATA_LOSS if it can't be
// read.
absl::StatusOr<DatabaseKind> ProbeDatabase(const std::string& path, const char* vfs);

// Syncs a directory, so that files made or renamed in it survive a power cut.
absl::Status SyncDirectory(const std::string& directory);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_DATA_DIRECTORY_H_
