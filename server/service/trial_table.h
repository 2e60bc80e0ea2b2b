#ifndef LUTHIER_SERVER_SERVICE_TRIAL_TABLE_H_
#define LUTHIER_SERVER_SERVICE_TRIAL_TABLE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "luthier/v1/study_service.pb.h"
#include "server/service/memory_guard.h"
#include "server/service/standings.h"
#include "server/service/trial_filter.h"
#include "server/storage/storage.h"

// The trials of a study as columns (v1::TrialColumn has their names).
namespace luthier::service {

// A study's columns in memory, which follow its log. Single-threaded.
class TrialTable {
 public:
  // Brings the table up to date with storage. O(trials that changed since). Errors as Storage, and of `memory`, which
  // may be null; after an error the table is empty.
  absl::Status Update(storage::Storage* storage, const storage::StudyRecord& study, const MemoryGuard* memory);

  struct Query {
    std::vector<std::string> columns;  // Empty: all but attributes.
    uint64_t after_seq = 0;
    int64_t after_number = 0;
    size_t bytes = 0;  // Approximate bytes of the values of a page; at least one row is taken.
  };
  // Fills `response` but for the page token, and returns the number of its last row; 0: there are no more.
  // INVALID_ARGUMENT for unknown columns.
  absl::StatusOr<int64_t> Fill(const Query& query, v1::GetTrialTableResponse* response) const;

  // Selects the trials of a list, and their order. Its field names are those of columns.
  struct Wanted {
    const Filter* filter = nullptr;         // Fits the study's space.
    std::vector<study::TrialState> states;  // Empty: all.
    Order order;
    std::string after;  // Place of the last trial of the page before; empty: from the beginning.
    size_t limit = 0;
  };
  struct Selected {
    int64_t number = 0;
    std::string place;  // For Wanted::after.
  };
  // Returns the first trials that are wanted, in order, without deleted ones. INVALID_ARGUMENT for an invalid place.
  absl::StatusOr<std::vector<Selected>> Select(const Wanted& wanted) const;

  // Returns the values of the study's metrics in all COMPLETE trials, in order of number.
  std::vector<TrialValues> Results(const study::StudySpec& spec) const;

  size_t bytes() const;
  uint64_t seq() const { return seq_; }

 private:
  // Numbers, or indexes into `words`.
  struct Column {
    bool coded = false;
    std::vector<double> numbers;
    std::vector<uint32_t> indexes;
    std::vector<std::string> words;
    std::map<std::string, uint32_t> places;
    size_t word_bytes = 0;
  };

  // A term of a filter with its column: true for words that are marked, or for numbers that compare as it says.
  struct BoundTerm;
  BoundTerm Bind(const FilterTerm& term) const;
  struct Key;  // Trials are ordered by it.

  // Finds the columns that every row has, which stay where they are.
  void FindOwn(const study::StudySpec& spec);
  absl::Status ReadAll(storage::Storage* storage, const storage::StudyRecord& study, const MemoryGuard* memory);
  // Reads all pages but the first one by several threads. Returns the errors of ReadAll.
  absl::Status ReadTogether(storage::Storage* storage, const storage::StudyRecord& study, const MemoryGuard* memory);
  absl::Status ReadChanges(storage::Storage* storage, const storage::StudyRecord& study, const MemoryGuard* memory);
  void Store(const storage::TrialRecord& record, const storage::StudyRecord& study);
  void StoreParameters(size_t row, const study::Trial& trial, const storage::StudyRecord& study);
  void Clear(size_t row);
  // Returns the column of this name, with room for `row`; null if there are too many.
  Column* Find(const std::string& name, bool coded, size_t row);
  void Set(const std::string& name, size_t row, double value) { Put(Find(name, false, row), row, value); }
  void Set(const std::string& name, size_t row, const std::string& word) { Put(Find(name, true, row), row, word); }
  // Sets a value; a null column takes none.
  static void Put(Column* column, size_t row, double value);
  static void Put(Column* column, size_t row, const std::string& word);
  std::vector<std::string> Names() const;
  // Says that the table has no such column, and what it has instead.
  std::string NoColumn(const std::string& name) const;

  uint64_t seq_ = 0;
  bool read_ = false;
  size_t rows_ = 0;                        // The row of trial n is n - 1.
  std::vector<std::string> parameters_;    // Names of their columns, in order of the space.
  std::map<std::string, Column> columns_;  // By name.
  // Columns of every row, so that reading a study looks up no names.
  struct Own {
    Column *number = nullptr, *state = nullptr, *update_seq = nullptr, *create_time = nullptr, *start_time = nullptr,
           *end_time = nullptr, *seconds = nullptr, *attempts = nullptr, *worker = nullptr, *designer = nullptr,
           *origin = nullptr, *step = nullptr;
    std::vector<Column*> parameters;  // In order of `parameters_`.
  } own_;
  int metrics_ = 0, attributes_ = 0;
};

// The tables that were used last, up to a number of bytes, and for some minutes. Thread-safe.
class TrialTables {
 public:
  // `memory` may be null; both must outlive it. Tables take an eighth of its limit at most, or 64 MiB.
  TrialTables(const MemoryGuard* memory, const base::Clock* clock) : memory_(memory), clock_(clock) {}

  // Reads the page of the study `id` that `request` asks for. INVALID_ARGUMENT, NOT_FOUND; errors as Storage.
  absl::Status Read(storage::Storage* storage, const std::string& id, const v1::GetTrialTableRequest& request,
                    v1::GetTrialTableResponse* response);
  // Returns the trials that are wanted (TrialTable::Select). Errors as there, and as Storage.
  absl::StatusOr<std::vector<TrialTable::Selected>> Select(storage::Storage* storage, const storage::StudyRecord& study,
                                                           const TrialTable::Wanted& wanted);
  // TrialTable::Results of the study as it is now. Errors as Storage.
  absl::StatusOr<std::vector<TrialValues>> Results(storage::Storage* storage, const storage::StudyRecord& study);

 private:
  struct Entry {
    base::Mutex mutex;
    TrialTable table ABSL_GUARDED_BY(mutex);
  };
  struct Kept {
    std::shared_ptr<Entry> entry;
    size_t bytes = 0;
    absl::Duration used;                             // Clock::Monotonic().
    std::list<storage::StudyKey>::iterator in_used;  // Its place in `used_`.
  };
  std::shared_ptr<Entry> Find(storage::StudyKey study);
  void Keep(storage::StudyKey study, size_t bytes);
  // Drops tables that were not used for a while, such as those of deleted studies.
  void DropUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(storage::StudyKey study) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MemoryGuard* const memory_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  std::map<storage::StudyKey, Kept> kept_ ABSL_GUARDED_BY(mutex_);
  std::list<storage::StudyKey> used_ ABSL_GUARDED_BY(mutex_);  // Used last comes first.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;                   // Bytes of all tables together.
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_TRIAL_TABLE_H_
