#ifndef LUTHIER_SERVER_STORAGE_HELD_FILES_H_
#define LUTHIER_SERVER_STORAGE_HELD_FILES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"

// Checks that a server can write its files, and that paths still lead to the files that it writes to.
namespace luthier::storage {

// Refuses a data directory that can't be written: the directory, or one of the files that exist already, which are the
// lock, luthier.db and access.db with what SQLite keeps beside them. SQLite opens a file that it may not write for
// reading, silently, and fails at the first write. A directory that is missing passes. FAILED_PRECONDITION naming the
// file, its mode and owner, and what to do.
absl::Status CheckWritable(const std::string& directory);

// Refuses a directory that has lost its database: luthier.db is missing or empty, and beside it are copies in backups/,
// an access.db or commits in luthier.db-wal. A new database there would hide the loss, and SQLite would remove the WAL.
// FAILED_PRECONDITION saying what is there and what to do.
absl::Status CheckNothingLost(const std::string& directory);

// Refuses a directory that has lost its tokens and projects: access.db is missing or empty, and beside it are
// admin.token or commits in access.db-wal. FAILED_PRECONDITION saying what is there and what to do.
absl::Status CheckTokensNotLost(const std::string& directory);

// Knows a data directory and files in it by device and inode, from a moment when they were open. Once one of them is
// moved, removed, replaced or covered by a mount, data written to the open one is no longer found under its path.
// Thread-safe.
class HeldFiles {
 public:
  // Takes note of `directory` and of the files `names` in it, all of which must exist and be open until the end of the
  // object. FAILED_PRECONDITION naming the one that is not there.
  static absl::StatusOr<std::unique_ptr<HeldFiles>> Note(const std::string& directory,
                                                         const std::vector<std::string>& names);

  // OK as long as every path leads to the same file as then, and the file system takes writes. DATA_LOSS saying which
  // file it is, what happened to it, and what to do. It costs some microseconds: a call of stat for each file.
  absl::Status Check() const;

 private:
  struct Identity {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };

  HeldFiles(std::string directory, base::Descriptor held) : directory_(std::move(directory)), held_(std::move(held)) {}
  // Checks that the path still leads to the same file.
  absl::Status CheckOne(const Identity& file) const;
  absl::Status Gone(const Identity& file, const std::string& what) const;

  const std::string directory_;  // Absolute, so that people who look for the files find them.
  const base::Descriptor held_;  // Open so that no other directory gets its inode.
  std::vector<Identity> files_;  // The directory comes first.
};

// Ends the process with exit code 74 (EX_IOERR of sysexits.h), because its storage can't be trusted any more. Says why
// in the log, and in a line on standard error whatever the log's level. Nothing is closed, so nothing more is written.
[[noreturn]] void EndForStorage(const absl::Status& why);

// Makes SIGBUS end the process as EndForStorage does: with 74, and a line on standard error that explains it. SQLite
// shares luthier.db-shm and access.db-shm with other processes through memory; a process that truncates one of them
// takes away mapped pages, which no check of paths could find in time.
void EndAtLostPages();

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_HELD_FILES_H_
