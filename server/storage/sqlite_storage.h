#ifndef LUTHIER_SERVER_STORAGE_SQLITE_STORAGE_H_
#define LUTHIER_SERVER_STORAGE_SQLITE_STORAGE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "server/storage/acknowledged.h"
#include "server/storage/connection.h"
#include "server/storage/data_directory.h"
#include "server/storage/held_files.h"
#include "server/storage/migrations.h"
#include "server/storage/sqlite_reader.h"
#include "server/storage/sqlite_writer.h"
#include "server/storage/storage.h"

namespace luthier::storage {

struct SqliteOptions {
  std::string directory;  // The data directory; made when missing (its parent must exist). Holds luthier.db.
  // True opens without locks, creation or migration: for looking at a server's data while it runs, or after it.
  bool read_only = false;
  bool force_network_filesystem = false;
  int readers = 4;              // Connections for reads: as many reads run at once. At least 1.
  int checkpoint_pages = 1000;  // Pages of 4 KiB in the WAL after which a commit also checkpoints. At least 1.

  // True leaves the check of all pages to BeginPageCheck if the file has the newest schema: reading all of a large file
  // takes seconds.
  bool check_behind = false;

  // For tests alone.
  std::string vfs;                           // A registered SQLite VFS; empty: the default one.
  bool unsafe_normal_sync = false;           // Mutant M2: loses acknowledged commits in a power cut.
  bool unsafe_retry_after_io_error = false;  // Mutant M11: goes on after a failed sync.
  std::vector<Migration> migrations = Migrations();
};

// Storage in one SQLite file (docs/design/storage.md). Commit from one thread at a time; reads from any thread, at most
// options.readers at once, others wait. After an I/O error every call fails with the same DATA_LOSS and the disk is not
// written again. Damage (damage.h) is reported to callers that need what is damaged, with its study's name; a batch
// that meets it is refused, and nothing of it is written.
class SqliteStorage final : public Storage {
 public:
  // Locks the directory, checks the file, brings its schema up to date (after a verified backup) and reads every pragma
  // back. FAILED_PRECONDITION: the directory is in use, on a network file system or without permission; the file is not
  // ours (it is left untouched) or too new; SQLite lacks a feature. DATA_LOSS: the file is damaged. UNAVAILABLE: disk
  // full. Before anything is made or changed: CheckWritable, and CheckNothingLost where there is no database.
  static absl::StatusOr<std::unique_ptr<SqliteStorage>> Open(const SqliteOptions& options);
  // As Close.
  ~SqliteStorage() override;

  // Moves everything into luthier.db, removes its -wal and -shm files and releases the directory. Later calls fail with
  // FAILED_PRECONDITION. No other call may be running. An error means that the WAL stays, which the next Open reads.
  absl::Status Close();

  // Starts the check of all pages that `check_behind` left out, beside all other work. To be called once, from the
  // thread that closes. Damage is logged; callers that need what is damaged are told in any case. Closing interrupts
  // it.
  void BeginPageCheck();

  // Makes a consistent copy under DIR/backups, complete in one file, while commits go on; returns its path. The name
  // has the schema version and the newest seq. Errors as BackUp.
  absl::StatusOr<std::string> Backup();

  // OK while the directory and its files are where they were, DATA_LOSS for ever once they were not: HeldFiles. Commit
  // checks by itself, between the sync and the answer. From any thread, but not beside Close.
  absl::Status CheckHeld();
  // Checks as CheckHeld, and that the files hold what was written: WrittenFile. It may wait for readers.
  absl::Status CheckFiles();

  absl::Status Commit(const WriteBatch& batch) override;
  absl::StatusOr<bool> EraseSome(int rows) override;
  absl::StatusOr<uint64_t> LastSeq() override;
  absl::StatusOr<uint64_t> LastFence() override;
  absl::StatusOr<absl::Duration> LastUptime() override;
  absl::StatusOr<StudyKey> LastStudyKey() override;
  absl::StatusOr<std::vector<StudyRecord>> ListStudies(const std::string& after_id, int limit) override;
  absl::StatusOr<StudyRecord> GetStudy(const std::string& id) override;
  absl::StatusOr<std::vector<StudyRecord>> ListDeleted(StudyKey after, int limit) override;
  absl::StatusOr<TrialRecord> GetTrial(StudyKey study, int64_t number) override;
  absl::StatusOr<std::vector<FormerSpec>> ListFormerSpecs(StudyKey study) override;
  absl::StatusOr<std::vector<TrialRecord>> ListTrials(StudyKey study, const TrialFilter& filter, int64_t after,
                                                      int limit) override;
  absl::StatusOr<std::vector<TrialSketch>> SketchTrials(const StudyRecord& study,
                                                        const std::vector<study::TrialState>& whole, int64_t after,
                                                        int limit) override;
  absl::StatusOr<std::vector<study::Measurement>> ListMeasurements(StudyKey study, int64_t trial,
                                                                   int32_t attempt) override;
  absl::StatusOr<std::vector<Event>> ListEvents(StudyKey study, uint64_t after, int limit) override;
  absl::StatusOr<std::vector<Event>> ListEventsBefore(StudyKey study, uint64_t before, int limit) override;
  absl::StatusOr<std::vector<SetAside>> ListSetAside(StudyKey study, int64_t after, int limit) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& id) override;
  absl::StatusOr<Summary> Summarize(const StudyRecord& study) override;

 private:
  explicit SqliteStorage(SqliteOptions options);
  absl::Status OpenFiles();
  absl::StatusOr<std::unique_ptr<SQLite::Database>> OpenDatabase();
  absl::Status BringUpToDate(SQLite::Database& db);
  ConnectionOptions Connection(bool writer) const;
  absl::Status Unusable(const absl::Status& status) const;  // Says which file it is, and how to mend it.
  void CheckPages();
  void StopCheck();
  template <typename T, typename F>
  absl::StatusOr<T> Read(F&& f);
  // Does the same for rows of one study, which damage then names.
  template <typename T, typename F>
  absl::StatusOr<T> ReadOf(StudyKey study, F&& f);
  absl::Status Named(const absl::Status& status, StudyKey study);
  bool IsDeleted(StudyKey study);

  const SqliteOptions options_;
  Health health_;
  std::unique_ptr<DirectoryLock> lock_;  // Null when read-only.
  std::unique_ptr<HeldFiles> held_;      // Null when read-only, and for files of another VFS.
  std::unique_ptr<SqliteWriter> writer_;
  std::unique_ptr<ReaderPool> readers_;
  std::unique_ptr<Acknowledged> acknowledged_;  // Null when read-only, and for a VFS that keeps no files.

  base::Mutex deleted_mutex_;
  std::set<StudyKey> deleted_ ABSL_GUARDED_BY(deleted_mutex_);   // Studies that have rows left.
  std::set<StudyKey> erasable_ ABSL_GUARDED_BY(deleted_mutex_);  // Part of them: erasure met no damage.

  std::atomic<int64_t> checked_bytes_ = 0;  // Size of luthier.db when CheckFiles looked last.

  bool check_behind_ = false;  // True if `options_` wants it and the schema allows it.
  base::Mutex check_mutex_;
  SQLite::Database* checking_ ABSL_GUARDED_BY(check_mutex_) = nullptr;
  bool check_stopped_ ABSL_GUARDED_BY(check_mutex_) = false;
  std::thread checker_;
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_SQLITE_STORAGE_H_
