#ifndef LUTHIER_SERVER_STORAGE_SQLITE_WRITER_H_
#define LUTHIER_SERVER_STORAGE_SQLITE_WRITER_H_

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/connection.h"
#include "server/storage/rules.h"
#include "server/storage/storage.h"
#include "server/storage/written_file.h"

namespace luthier::storage {

// The one read-write connection with its prepared statements. One thread at a time. Reports fatal errors to `health`,
// which must outlive it, and writes nothing after that.
class SqliteWriter {
 public:
  // `db` has its schema and pragmas. `checkpoint_pages` is the number of WAL pages after which a commit also
  // checkpoints.
  static absl::StatusOr<std::unique_ptr<SqliteWriter>> Create(std::unique_ptr<SQLite::Database> db,
                                                              int checkpoint_pages, Health* health);

  // As Storage::Commit.
  absl::Status Commit(const WriteBatch& batch);
  // Erases at most `rows` rows of a deleted study, in one transaction. False: none is left. Errors as Storage::Commit.
  absl::StatusOr<bool> Erase(StudyKey study, int rows);
  // Returns the seq of the newest committed event.
  uint64_t last_seq() const { return counters_.seq; }
  // OK while the files are as this connection wrote them: WrittenFile. Commit and Erase check by themselves.
  absl::Status CheckFiles();
  // Moves the whole WAL into the database file and empties it; call it before the last connection closes.
  absl::Status CheckpointAll();

 private:
  struct KnownStudy {
    std::string id;
    study::StudySpec spec;
    int64_t newest_trial = 0;
    int64_t events = 0;
  };
  // Rows that a batch adds to those of a study.
  struct Added {
    int64_t newest_trial = 0;
    int64_t events = 0;
  };

  SqliteWriter(std::unique_ptr<SQLite::Database> db, int checkpoint_pages, Health* health);

  absl::Status LoadCounters();
  absl::Status ApplyAll(const WriteBatch& batch);
  absl::Status RollBack(absl::Status cause);
  absl::Status AfterCommit();  // Checks the files that were written, then checkpoints if it is due.
  absl::Status CheckpointIfDue();
  // Counts the rows that the batch adds, for the studies' rows, which hold the numbers of the others.
  void CountAdded(const WriteBatch& batch);
  void TakeAdded(StudyKey key, KnownStudy& known);
  absl::Status WriteAdded();
  absl::Status SetCounter(const char* name, int64_t value);
  // Returns the study's id and spec as stored in this transaction; null if there is none.
  absl::StatusOr<KnownStudy*> Find(StudyKey key);

  absl::Status Apply(const PutStudy& put, StudyKey keys_before);
  absl::Status InsertStudy(const StudyRecord& record, StudyKey keys_before);
  absl::Status Apply(const DeleteStudy& deletion, StudyKey keys_before);
  absl::Status Apply(const HideStudy& hiding, StudyKey keys_before);
  absl::Status Apply(const UnhideStudy& unhiding, StudyKey keys_before);
  absl::Status Apply(const PutFormerSpec& put, StudyKey keys_before);
  absl::Status Apply(const PutTrial& put, StudyKey keys_before);
  absl::Status Apply(const PutMeasurement& put, StudyKey keys_before);
  absl::Status Apply(const AppendEvent& append, StudyKey keys_before);
  absl::Status Apply(const PutRequest& put, StudyKey keys_before);
  absl::Status Apply(const ChangeRequest& change, StudyKey keys_before);
  absl::Status Apply(const SetUptime& set, StudyKey keys_before);
  absl::Status Apply(const ForgetRequestsBefore& forget, StudyKey keys_before);
  absl::Status Apply(const SetFence& set, StudyKey keys_before);

  const std::unique_ptr<SQLite::Database> db_;
  const int checkpoint_pages_;
  Health* const health_;
  SQLite::Statement begin_, commit_, roll_back_, last_seq_, get_counter_, set_counter_, find_study_, insert_study_,
      update_study_, update_spec_, update_added_, delete_study_, hide_study_, find_hidden_, unhide_study_,
      erase_measurements_, erase_trials_, erase_study_, put_former_spec_, put_trial_, put_measurement_, append_event_,
      put_request_, change_request_, forget_requests_;
  WrittenFile written_;
  Counters counters_;
  std::map<StudyKey, KnownStudy> studies_;  // Studies that Find has seen. Specs are large and hardly ever change.
  std::map<StudyKey, Added> added_;         // Rows that the batch added and that no study's row counts yet.
  bool keep_requests_ = false;              // True if old requests can't be erased because of damage, and stay.
  int wal_pages_ = 0;                       // Number after the newest commit; set by SQLite's hook.
  int next_checkpoint_ = 0;
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_SQLITE_WRITER_H_
