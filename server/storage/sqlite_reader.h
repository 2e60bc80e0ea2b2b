#ifndef LUTHIER_SERVER_STORAGE_SQLITE_READER_H_
#define LUTHIER_SERVER_STORAGE_SQLITE_READER_H_

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "server/storage/connection.h"
#include "server/storage/storage.h"

namespace luthier::storage {

// One read-only connection with its prepared statements. Each call sees one committed moment. One thread at a time.
// The calls are those of Storage, which says what they return.
class SqliteReader {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteReader>> Open(const ConnectionOptions& options);

  // Checks the files that the connection has open, of which the database had at least `bytes` (WrittenFile). Returns
  // how many it has now.
  absl::StatusOr<int64_t> CheckFiles(int64_t bytes);
  absl::StatusOr<uint64_t> LastSeq();
  absl::StatusOr<int64_t> Counter(const char* name);
  absl::StatusOr<std::vector<StudyRecord>> ListStudies(const std::string& after_id, int limit);
  // Lists keys and ids alone, like ListStudies, where rows can't be read.
  absl::StatusOr<std::vector<StudyRecord>> ListStudyIds(const std::string& after_id, int limit);
  absl::StatusOr<StudyRecord> GetStudy(const std::string& id);
  absl::StatusOr<std::vector<StudyRecord>> ListDeleted(StudyKey after, int limit);
  absl::StatusOr<TrialRecord> GetTrial(StudyKey study, int64_t number);
  absl::StatusOr<std::vector<FormerSpec>> ListFormerSpecs(StudyKey study);
  absl::StatusOr<std::vector<TrialRecord>> ListTrials(StudyKey study, const TrialFilter& filter, int64_t after,
                                                      int limit);
  absl::StatusOr<std::vector<TrialSketch>> SketchTrials(const StudyRecord& study,
                                                        const std::vector<study::TrialState>& whole, int64_t after,
                                                        int limit);
  absl::StatusOr<std::vector<study::Measurement>> ListMeasurements(StudyKey study, int64_t trial, int32_t attempt);
  absl::StatusOr<std::vector<Event>> ListEvents(StudyKey study, uint64_t after, int limit);
  absl::StatusOr<std::vector<Event>> ListEventsBefore(StudyKey study, uint64_t before, int limit);
  absl::StatusOr<std::vector<SetAside>> ListSetAside(StudyKey study, int64_t after, int limit);
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& id);
  // Returns the id of a study without reading the rest of its row, for messages; "": there is none.
  absl::StatusOr<std::string> IdOf(StudyKey study);
  // Lists studies that were deleted for ever and have rows left.
  absl::StatusOr<std::vector<StudyKey>> ListErasable();
  absl::StatusOr<Storage::Summary> Summarize(const StudyRecord& study);

 private:
  explicit SqliteReader(std::unique_ptr<SQLite::Database> db);

  // Runs f within one read transaction, so that several statements see one moment.
  template <typename F>
  auto InTransaction(F&& f) -> decltype(f());
  // Returns damage if the table of trials ends before the study's row says. Within a transaction; may throw.
  absl::Status CheckEnd(StudyKey study, int64_t last);
  absl::StatusOr<std::vector<TrialRecord>> ListInState(StudyKey study, study::TrialState state, int64_t after,
                                                       int limit);
  absl::StatusOr<std::vector<TrialRecord>> ListInStates(StudyKey study, const std::vector<study::TrialState>& states,
                                                        int64_t after, int limit);

  std::unique_ptr<SQLite::Database> db_;
  SQLite::Statement begin_, end_, last_seq_, counter_, list_studies_, list_study_ids_, get_study_, id_of_, list_hidden_,
      list_erasable_, get_trial_, list_trials_, sketch_trials_, newest_trial_, list_former_specs_,
      list_trials_in_state_, list_numbers_in_state_, list_measurements_, list_events_, list_events_before_,
      list_set_aside_, find_request_, count_in_state_, count_removed_, sum_resource_, count_trainings_, least_value_,
      greatest_value_;
};

// A few readers that threads borrow in turn; a thread waits while all are in use. Thread-safe.
class ReaderPool {
 public:
  static absl::StatusOr<std::unique_ptr<ReaderPool>> Open(const ConnectionOptions& options, int size);

  // Runs f(SqliteReader&).
  template <typename F>
  auto With(F&& f) {
    const Loan loan(this);
    return f(*loan.reader);
  }

 private:
  struct Loan {
    explicit Loan(ReaderPool* p) : pool(p), reader(p->Take()) {}
    ~Loan() { pool->GiveBack(reader); }
    ReaderPool* const pool;
    SqliteReader* const reader;
  };

  SqliteReader* Take();
  void GiveBack(SqliteReader* reader);

  std::vector<std::unique_ptr<SqliteReader>> readers_;  // Fixed after Open.
  base::Mutex mutex_;
  base::CondVar idle_again_;
  std::deque<SqliteReader*> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_SQLITE_READER_H_
