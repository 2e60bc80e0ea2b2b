#ifndef LUTHIER_TESTS_TESTING_POWERCUT_VFS_H_
#define LUTHIER_TESTS_TESTING_POWERCUT_VFS_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/random.h"

namespace luthier::testing {

// A SQLite VFS whose disk is memory and whose power can be cut. Registered under name() as long as it lives;
// connections must be closed before it goes. Thread-safe; WAL works between the connections of this process.
//
// The disk knows for each 512-byte sector whether it was synced since it was written. A power cut keeps a random subset
// of the others, as a drive does that reorders; a sector is never torn. Sizes, new names and removals are as uncertain
// as data until they are synced: a new file's first sync also syncs its directory, a removal is sure only if it asked
// for that. After a cut every open file fails until its connection is closed.
//
// A sync that fails leaves its sectors looking clean while they are not on the disk, as Linux does: a second sync that
// succeeds does not save them.
class PowerCutVfs {
 public:
  enum class Operation { kRead, kWrite, kSync };
  struct Fault {
    Operation operation = Operation::kWrite;
    int64_t at = 1;  // The how-manyeth such operation from now fails, from 1.
    int code = SQLITE_IOERR_WRITE;
    bool partial = false;  // A failing write stores its first half.
  };

  explicit PowerCutVfs(uint64_t seed);
  ~PowerCutVfs();
  PowerCutVfs(const PowerCutVfs&) = delete;
  PowerCutVfs& operator=(const PowerCutVfs&) = delete;

  const std::string& name() const { return name_; }

  // The power fails at the n-th write, sync, truncation or removal from now (n >= 1): that one may or may not happen.
  void CutAt(int64_t n);
  // Whether it has failed; until Restart everything fails.
  bool is_off();
  // Cuts the power now unless it is off, then switches it on: files hold what survived.
  void Restart();

  void Arm(const Fault& fault);
  bool fault_happened();

  // Mutant of the disk itself: syncs do nothing. A test that does not notice is broken.
  void IgnoreSyncs();

  // Writes, syncs, truncations and removals so far.
  int64_t changes();

  // The whole disk, as after an orderly end; for starting many runs from one state.
  using Image = std::map<std::string, std::vector<char>>;
  Image Save();
  void Load(const Image& image);

 private:
  struct File;
  struct Handle;
  friend struct Methods;

  int Open(const char* path, int flags, Handle* handle, int* out_flags);
  int Remove(const std::string& path, bool sync_directory);
  bool Exists(const std::string& path);
  // Whether the operation may go on; else *code says what it returns.
  bool Admit(Operation operation, int* code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AdmitChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SyncDirectory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Survive(File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  base::Mutex mutex_;
  base::RandomStream random_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<File>> files_ ABSL_GUARDED_BY(mutex_);
  int64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // Handles of earlier ones are dead.
  bool off_ ABSL_GUARDED_BY(mutex_) = false;
  bool ignore_syncs_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<int64_t> cut_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<Fault> fault_ ABSL_GUARDED_BY(mutex_);
  bool fault_happened_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_POWERCUT_VFS_H_
