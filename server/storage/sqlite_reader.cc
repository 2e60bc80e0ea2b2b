#include "server/storage/sqlite_reader.h"

#include <SQLiteCpp/Column.h>
#include <sqlite3.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"
#include "lib/wire/convert.h"
#include "server/storage/damage.h"
#include "server/storage/legacy_records.h"
#include "server/storage/record_codec.h"
#include "server/storage/row_sums.h"
#include "server/storage/rules.h"
#include "server/storage/sql.h"
#include "server/storage/written_file.h"

namespace luthier::storage {
namespace {

#define LUTHIER_STUDY_COLUMNS                                                                               \
  "key, id, state, state_reason, create_time_ns, update_time_ns, create_seq, update_seq, resume_seq, spec," \
  " added_trials, created_digest, bytes, create_uptime_ns, sum = " LUTHIER_STUDY_SUM                        \
  ", owner, hidden_id, hidden_time_ns, hidden_uptime_ns"
#define LUTHIER_TRIAL_COLUMNS "number, state, create_seq, finish_seq, body, study, sum = " LUTHIER_TRIAL_SUM
#define LUTHIER_EVENT_COLUMNS                                                                          \
  "seq, time_ns, study, study_id, trial, attempt, type, actor, detail, value, value_bits, facts, sum " \
  "= " LUTHIER_EVENT_SUM

// Reads the column that compares a row's checksum.
bool IsWhole(const SQLite::Statement& row, int column) {
  return Int64Column(row, column) == 1;
}

// Returns the damage of a row. Its message has what decoding found wrong.
absl::Status DamagedRow(StudyKey study, absl::string_view what, const absl::Status& cause) {
  return Damaged(study, absl::StrCat(what, " (", cause.message(), ")"));
}

absl::StatusOr<StudyRecord> StudyRow(const SQLite::Statement& row) {
  StudyRecord record;
  record.key = Int64Column(row, 0);
  record.id = StringColumn(row, 1);
  const std::optional<study::StudyState> state = study::ParseStudyState(BytesColumn(row, 2));
  if (!IsWhole(row, 14) || !state) return Damaged(record.key, "its row");
  record.state = *state;
  record.state_reason = StringColumn(row, 3);
  record.create_time = TimeFromNanos(Int64Column(row, 4));
  record.update_time = TimeFromNanos(Int64Column(row, 5));
  record.create_seq = Uint64Column(row, 6);
  record.update_seq = Uint64Column(row, 7);
  record.resume_seq = Uint64Column(row, 8);
  absl::StatusOr<study::StudySpec> spec = DecodeSpec(BytesColumn(row, 9));
  if (!spec.ok()) return DamagedRow(record.key, "its spec", spec.status());
  record.spec = *std::move(spec);
  record.added_trials = Int64Column(row, 10);
  record.created_digest = StringColumn(row, 11);
  record.bytes = Int64Column(row, 12);
  record.create_uptime = absl::Nanoseconds(Int64Column(row, 13));
  record.owner = StringColumn(row, 15);
  std::string hidden_id = StringColumn(row, 16);
  if (!hidden_id.empty()) {
    record.id = std::move(hidden_id);
    record.deletion = Deletion{TimeFromNanos(Int64Column(row, 17)), absl::Nanoseconds(Int64Column(row, 18))};
  }
  return record;
}

absl::StatusOr<TrialRecord> TrialRow(const SQLite::Statement& row) {
  const int64_t number = Int64Column(row, 0);
  const StudyKey study = Int64Column(row, 5);
  const std::string what = absl::StrCat("trial ", number);
  const std::optional<study::TrialState> state = study::ParseTrialState(BytesColumn(row, 1));
  if (!IsWhole(row, 6) || !state) return Damaged(study, what);
  absl::StatusOr<TrialRecord> record = DecodeTrialBody(BytesColumn(row, 4));
  if (!record.ok()) return DamagedRow(study, what, record.status());
  record->trial.number = number;
  record->trial.state = *state;
  record->create_seq = Uint64Column(row, 2);
  record->finish_seq = Uint64Column(row, 3);
  return record;
}

absl::StatusOr<TrialSketch> SketchRow(const SQLite::Statement& row, const std::vector<study::TrialState>& whole) {
  TrialSketch sketch;
  sketch.number = Int64Column(row, 0);
  const std::optional<study::TrialState> state = study::ParseTrialState(BytesColumn(row, 1));
  const StudyKey study = Int64Column(row, 5);
  const std::string what = absl::StrCat("trial ", sketch.number);
  if (!IsWhole(row, 6) || !state) return Damaged(study, what);
  sketch.state = *state;
  sketch.finish_seq = Uint64Column(row, 3);
  if (!row.getColumn(7).isNull()) sketch.value = DoubleColumn(row, 7);
  sketch.removed = Int64Column(row, 8) != 0;
  const absl::StatusOr<int64_t> asks = CountAsks(BytesColumn(row, 4));
  if (!asks.ok()) return DamagedRow(study, what, asks.status());
  sketch.asks = *asks;
  if (std::find(whole.begin(), whole.end(), sketch.state) == whole.end()) return sketch;
  LUTHIER_ASSIGN_OR_RETURN(sketch.record, TrialRow(row));
  return sketch;
}

constexpr int64_t kRetried = 1;  // In column `removed`.

absl::StatusOr<FormerSpec> FormerSpecRow(const SQLite::Statement& row) {
  FormerSpec former;
  former.until_seq = Uint64Column(row, 0);
  former.max_trials = Int64Column(row, 1);
  const StudyKey study = Int64Column(row, 4);
  const std::string what = absl::StrCat("its former spec until event ", former.until_seq);
  if (!IsWhole(row, 5)) return Damaged(study, what);
  if (!row.getColumn(2).isNull()) {
    absl::StatusOr<study::StudySpec> spec = DecodeSpec(BytesColumn(row, 2));
    if (!spec.ok()) return DamagedRow(study, what, spec.status());
    former.spec = *std::move(spec);
  }
  if (!row.getColumn(3).isNull()) {
    absl::StatusOr<study::SpecChange> back = DecodeWayBack(BytesColumn(row, 3));
    if (!back.ok()) return DamagedRow(study, what, back.status());
    former.back = *std::move(back);
  }
  return former;
}

absl::StatusOr<study::Measurement> MeasurementRow(const SQLite::Statement& row) {
  const auto what = [&] {
    return absl::StrCat("the point at step ", Int64Column(row, 4), " of trial ", Int64Column(row, 2), ", attempt ",
                        Int64Column(row, 3), ",");
  };
  if (!IsWhole(row, 5)) return Damaged(Int64Column(row, 1), what());
  absl::StatusOr<study::Measurement> point = DecodeMeasurement(BytesColumn(row, 0));
  if (!point.ok()) return DamagedRow(Int64Column(row, 1), what(), point.status());
  return point;
}

// Returns the exact value of a double that a REAL column would change, as the writer stored it.
std::optional<double> ExactValue(const SQLite::Statement& row, int value_column, int bits_column) {
  const absl::string_view bytes = BytesColumn(row, bits_column);
  if (bytes.empty()) return DoubleColumn(row, value_column);
  uint64_t bits = 0;
  for (const char byte : bytes) bits = bits << 8 | static_cast<unsigned char>(byte);
  return std::bit_cast<double>(bits);
}

absl::StatusOr<SetAside> SetAsideRow(const SQLite::Statement& row) {
  if (!IsWhole(row, 4)) return Damaged(Int64Column(row, 3), absl::StrCat("event ", Int64Column(row, 2)));
  return SetAside{Int64Column(row, 0), StringColumn(row, 1)};
}

absl::StatusOr<Event> EventRow(const SQLite::Statement& row) {
  Event event;
  event.seq = Uint64Column(row, 0);
  event.time = TimeFromNanos(Int64Column(row, 1));
  event.study = Int64Column(row, 2);
  if (!IsWhole(row, 12)) return Damaged(event.study, absl::StrCat("event ", event.seq));
  event.study_id = StringColumn(row, 3);
  event.trial = Int64Column(row, 4);
  event.attempt = static_cast<int32_t>(Int64Column(row, 5));
  event.type = static_cast<EventType>(Int64Column(row, 6));
  event.actor = StringColumn(row, 7);
  event.detail = StringColumn(row, 8);
  event.value = ExactValue(row, 9, 10);
  if (row.getColumn(11).isNull()) {
    ReadLegacyEvent(&event);
  } else {
    DecodeEventFacts(BytesColumn(row, 11), &event);
  }
  return event;
}

// Steps a bound statement to its end.
template <typename Row>
auto Rows(SQLite::Statement& statement, Row row_of) {
  using T = typename decltype(row_of(statement))::value_type;
  const auto read = [&]() -> absl::StatusOr<std::vector<T>> {
    std::vector<T> rows;
    while (statement.executeStep()) {
      absl::StatusOr<T> row = row_of(statement);
      if (!row.ok()) return row.status();
      rows.push_back(*std::move(row));
    }
    return rows;
  };
  return read();
}

int AtLeastZero(int limit) {
  return std::max(limit, 0);
}  // SQL takes a negative limit as none.

}  // namespace

SqliteReader::SqliteReader(std::unique_ptr<SQLite::Database> db)
    : db_(std::move(db)),
      begin_(*db_, "BEGIN DEFERRED"),
      end_(*db_, "COMMIT"),
      last_seq_(*db_, "SELECT coalesce(max(seq), 0) FROM event"),
      counter_(*db_, "SELECT value, sum = " LUTHIER_COUNTER_SUM " FROM counter WHERE name = ?1"),
      list_studies_(*db_,
                    "SELECT " LUTHIER_STUDY_COLUMNS " FROM study WHERE id > ?1 AND id < '~' ORDER BY id LIMIT ?2"),
      list_study_ids_(*db_, "SELECT key, id FROM study WHERE id > ?1 AND id < '~' ORDER BY id LIMIT ?2"),
      get_study_(*db_, "SELECT " LUTHIER_STUDY_COLUMNS " FROM study WHERE id = ?1 AND id < '~'"),
      id_of_(*db_, "SELECT id FROM study WHERE key = ?1"),
      list_hidden_(*db_,
                   "SELECT " LUTHIER_STUDY_COLUMNS
                   " FROM study INDEXED BY study_hidden WHERE key > ?1 AND hidden_id <> '' ORDER BY key LIMIT ?2"),
      list_erasable_(*db_, "SELECT key FROM study WHERE id >= '~' AND hidden_id = ''"),
      get_trial_(*db_, "SELECT " LUTHIER_TRIAL_COLUMNS " FROM trial WHERE study = ?1 AND number = ?2"),
      list_trials_(*db_, "SELECT " LUTHIER_TRIAL_COLUMNS
                         " FROM trial WHERE study = ?1 AND number > ?2 ORDER BY number LIMIT ?3"),
      sketch_trials_(*db_, "SELECT " LUTHIER_TRIAL_COLUMNS
                           ", value, removed FROM trial WHERE study = ?1 AND number > ?2 ORDER BY number LIMIT ?3"),
      newest_trial_(*db_, "SELECT newest_trial FROM study WHERE key = ?1"),
      list_former_specs_(*db_, "SELECT until_seq, max_trials, spec, back, study, sum = " LUTHIER_FORMER_SPEC_SUM
                               " FROM former_spec WHERE study = ?1 ORDER BY until_seq"),
      list_trials_in_state_(*db_, "SELECT " LUTHIER_TRIAL_COLUMNS
                                  " FROM trial INDEXED BY trial_by_state"
                                  " WHERE study = ?1 AND state = ?4 AND number > ?2 ORDER BY number LIMIT ?3"),
      list_numbers_in_state_(*db_,
                             "SELECT number FROM trial INDEXED BY trial_by_state"
                             " WHERE study = ?1 AND state = ?4 AND number > ?2 ORDER BY number LIMIT ?3"),
      list_measurements_(*db_, "SELECT body, study, trial, attempt, step, sum = " LUTHIER_MEASUREMENT_SUM
                               " FROM measurement WHERE study = ?1 AND trial = ?2 AND attempt = ?3 ORDER BY step"),
      list_events_(*db_, "SELECT " LUTHIER_EVENT_COLUMNS
                         " FROM event INDEXED BY event_by_study WHERE study = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"),
      list_events_before_(
          *db_, "SELECT " LUTHIER_EVENT_COLUMNS
                " FROM event INDEXED BY event_by_study WHERE study = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3"),
      // With min() the other columns are those of the row it is found in.
      list_set_aside_(*db_, "SELECT trial, actor, min(seq), study, sum = " LUTHIER_EVENT_SUM
                            " FROM event INDEXED BY event_set_aside"
                            " WHERE study = ?1 AND type = 21 AND trial > ?2 GROUP BY trial ORDER BY trial LIMIT ?3"),
      find_request_(
          *db_, "SELECT id, digest, reply, uptime_ns, typed, sum = " LUTHIER_REQUEST_SUM " FROM request WHERE id = ?1"),
      // Counts one state at a time: counting a range of an index costs half of grouping it.
      count_in_state_(*db_, "SELECT count(*) FROM trial INDEXED BY trial_by_state WHERE study = ?1 AND state = ?2"),
      count_removed_(*db_,
                     "SELECT removed, state, count(*) FROM trial INDEXED BY trial_removed"
                     " WHERE study = ?1 AND removed > 0 GROUP BY removed, state"),
      sum_resource_(*db_,
                    "SELECT coalesce(sum(resource), 0) FROM trial INDEXED BY trial_by_resource"
                    " WHERE study = ?1 AND resource > 0"),
      count_trainings_(*db_,
                       "SELECT training, count(*) FROM trial INDEXED BY trial_by_training"
                       " WHERE study = ?1 AND training > 0 GROUP BY training"),
      least_value_(*db_,
                   "SELECT number, value FROM trial INDEXED BY trial_by_value"
                   " WHERE study = ?1 AND value IS NOT NULL ORDER BY value, number LIMIT 1"),
      greatest_value_(*db_,
                      "SELECT number, value FROM trial INDEXED BY trial_by_value"
                      " WHERE study = ?1 AND value = (SELECT max(value) FROM trial INDEXED BY trial_by_value"
                      " WHERE study = ?1 AND value IS NOT NULL) ORDER BY number LIMIT 1") {}

absl::StatusOr<std::unique_ptr<SqliteReader>> SqliteReader::Open(const ConnectionOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<SQLite::Database> db, OpenConnection(options));
  LUTHIER_RETURN_IF_ERROR(SetPragmas(*db, options));
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<SqliteReader>> {
    return std::unique_ptr<SqliteReader>(new SqliteReader(std::move(db)));
  });
}

template <typename F>
auto SqliteReader::InTransaction(F&& f) -> decltype(f()) {
  return Guarded([&]() -> decltype(f()) {
    const ResetGuard begin(&begin_);
    begin_.exec();
    // The transaction ends whatever f returned: its view of the past must not stay open.
    decltype(f()) result = Guarded(f);
    if (sqlite3_get_autocommit(db_->getHandle()) != 0) return result;  // SQLite ended it at an unreadable page.
    const ResetGuard end(&end_);
    end_.exec();
    return result;
  });
}

absl::StatusOr<uint64_t> SqliteReader::LastSeq() {
  return Guarded([&]() -> absl::StatusOr<uint64_t> {
    const ResetGuard guard(&last_seq_);
    last_seq_.executeStep();
    return Uint64Column(last_seq_, 0);
  });
}

absl::StatusOr<int64_t> SqliteReader::CheckFiles(int64_t bytes) {
  WrittenFile file(db_->getHandle(), bytes);
  LUTHIER_RETURN_IF_ERROR(file.Check());
  return file.bytes();
}

absl::StatusOr<int64_t> SqliteReader::Counter(const char* name) {
  return Guarded([&]() -> absl::StatusOr<int64_t> {
    const ResetGuard guard(&counter_);
    BindName(counter_, 1, name);
    if (!counter_.executeStep() || !IsWhole(counter_, 1)) return Damaged(0, absl::StrCat("the counter ", name));
    return Int64Column(counter_, 0);
  });
}

absl::StatusOr<std::vector<StudyRecord>> SqliteReader::ListStudies(const std::string& after_id, int limit) {
  return Guarded([&] {
    const ResetGuard guard(&list_studies_);
    BindText(list_studies_, 1, after_id);
    Bind(list_studies_, 2, int64_t{AtLeastZero(limit)});
    return Rows(list_studies_, StudyRow);
  });
}

absl::StatusOr<std::vector<StudyRecord>> SqliteReader::ListStudyIds(const std::string& after_id, int limit) {
  return Guarded([&] {
    const ResetGuard guard(&list_study_ids_);
    BindText(list_study_ids_, 1, after_id);
    Bind(list_study_ids_, 2, int64_t{AtLeastZero(limit)});
    return Rows(list_study_ids_, [](const SQLite::Statement& row) -> absl::StatusOr<StudyRecord> {
      StudyRecord record;
      record.key = Int64Column(row, 0);
      record.id = StringColumn(row, 1);
      return record;
    });
  });
}

absl::StatusOr<StudyRecord> SqliteReader::GetStudy(const std::string& id) {
  return Guarded([&]() -> absl::StatusOr<StudyRecord> {
    const ResetGuard guard(&get_study_);
    BindText(get_study_, 1, id);
    if (!get_study_.executeStep()) return NoSuchStudy(id);
    return StudyRow(get_study_);
  });
}

absl::StatusOr<std::vector<StudyRecord>> SqliteReader::ListDeleted(StudyKey after, int limit) {
  return Guarded([&] {
    const ResetGuard guard(&list_hidden_);
    Bind(list_hidden_, 1, after);
    Bind(list_hidden_, 2, int64_t{AtLeastZero(limit)});
    return Rows(list_hidden_, [](const SQLite::Statement& row) -> absl::StatusOr<StudyRecord> {
      absl::StatusOr<StudyRecord> record = StudyRow(row);
      if (!IsDamage(record.status())) return record;
      StudyRecord damaged;
      damaged.key = Int64Column(row, 0);
      damaged.id = StringColumn(row, 16);
      damaged.damage = record.status();
      return damaged;
    });
  });
}

absl::StatusOr<std::vector<StudyKey>> SqliteReader::ListErasable() {
  return Guarded([&] {
    const ResetGuard guard(&list_erasable_);
    return Rows(list_erasable_,
                [](const SQLite::Statement& row) -> absl::StatusOr<StudyKey> { return Int64Column(row, 0); });
  });
}

absl::Status SqliteReader::CheckEnd(StudyKey study, int64_t last) {
  const ResetGuard guard(&newest_trial_);
  Bind(newest_trial_, 1, study);
  const int64_t newest = newest_trial_.executeStep() ? Int64Column(newest_trial_, 0) : 0;
  if (last >= newest) return absl::OkStatus();
  return Damaged(study, absl::StrCat("trial ", newest, ", of which there is no row,"));
}

absl::StatusOr<std::string> SqliteReader::IdOf(StudyKey study) {
  return Guarded([&]() -> absl::StatusOr<std::string> {
    const ResetGuard guard(&id_of_);
    Bind(id_of_, 1, study);
    return id_of_.executeStep() ? StringColumn(id_of_, 0) : "";
  });
}

absl::StatusOr<TrialRecord> SqliteReader::GetTrial(StudyKey study, int64_t number) {
  return Guarded([&]() -> absl::StatusOr<TrialRecord> {
    const ResetGuard guard(&get_trial_);
    Bind(get_trial_, 1, study);
    Bind(get_trial_, 2, number);
    if (!get_trial_.executeStep()) return NoSuchTrial(study, number);
    return TrialRow(get_trial_);
  });
}

absl::StatusOr<std::vector<FormerSpec>> SqliteReader::ListFormerSpecs(StudyKey study) {
  return Guarded([&] {
    const ResetGuard guard(&list_former_specs_);
    Bind(list_former_specs_, 1, study);
    return Rows(list_former_specs_, FormerSpecRow);
  });
}

absl::StatusOr<std::vector<TrialRecord>> SqliteReader::ListTrials(StudyKey study, const TrialFilter& filter,
                                                                  int64_t after, int limit) {
  std::vector<study::TrialState> states = filter.states;
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  if (states.size() == 1) return ListInState(study, states[0], after, AtLeastZero(limit));
  if (!states.empty()) return ListInStates(study, states, after, AtLeastZero(limit));
  return InTransaction([&]() -> absl::StatusOr<std::vector<TrialRecord>> {
    const ResetGuard guard(&list_trials_);
    Bind(list_trials_, 1, study);
    Bind(list_trials_, 2, after);
    Bind(list_trials_, 3, int64_t{AtLeastZero(limit)});
    LUTHIER_ASSIGN_OR_RETURN(std::vector<TrialRecord> page, Rows(list_trials_, TrialRow));
    if (page.size() < static_cast<size_t>(AtLeastZero(limit))) {
      LUTHIER_RETURN_IF_ERROR(CheckEnd(study, page.empty() ? after : page.back().trial.number));
    }
    return page;
  });
}

absl::StatusOr<std::vector<TrialRecord>> SqliteReader::ListInState(StudyKey study, study::TrialState state,
                                                                   int64_t after, int limit) {
  return Guarded([&] {
    const ResetGuard guard(&list_trials_in_state_);
    Bind(list_trials_in_state_, 1, study);
    Bind(list_trials_in_state_, 2, after);
    Bind(list_trials_in_state_, 3, int64_t{limit});
    BindName(list_trials_in_state_, 4, study::TrialStateName(state).data());
    return Rows(list_trials_in_state_, TrialRow);
  });
}

// The index has the numbers of each state in order, so the first `limit` of their union are among the first `limit` of
// each.
absl::StatusOr<std::vector<TrialRecord>> SqliteReader::ListInStates(StudyKey study,
                                                                    const std::vector<study::TrialState>& states,
                                                                    int64_t after, int limit) {
  return InTransaction([&]() -> absl::StatusOr<std::vector<TrialRecord>> {
    std::vector<int64_t> numbers;
    for (const study::TrialState state : states) {
      const ResetGuard guard(&list_numbers_in_state_);
      Bind(list_numbers_in_state_, 1, study);
      Bind(list_numbers_in_state_, 2, after);
      Bind(list_numbers_in_state_, 3, int64_t{limit});
      BindName(list_numbers_in_state_, 4, study::TrialStateName(state).data());
      while (list_numbers_in_state_.executeStep()) numbers.push_back(Int64Column(list_numbers_in_state_, 0));
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.resize(std::min(numbers.size(), static_cast<size_t>(limit)));
    std::vector<TrialRecord> page;
    page.reserve(numbers.size());
    for (const int64_t number : numbers) {
      LUTHIER_ASSIGN_OR_RETURN(TrialRecord record, GetTrial(study, number));
      page.push_back(std::move(record));
    }
    return page;
  });
}

absl::StatusOr<std::vector<TrialSketch>> SqliteReader::SketchTrials(const StudyRecord& study,
                                                                    const std::vector<study::TrialState>& whole,
                                                                    int64_t after, int limit) {
  return InTransaction([&]() -> absl::StatusOr<std::vector<TrialSketch>> {
    const ResetGuard guard(&sketch_trials_);
    Bind(sketch_trials_, 1, study.key);
    Bind(sketch_trials_, 2, after);
    Bind(sketch_trials_, 3, int64_t{AtLeastZero(limit)});
    LUTHIER_ASSIGN_OR_RETURN(std::vector<TrialSketch> page,
                             Rows(sketch_trials_, [&](const SQLite::Statement& row) { return SketchRow(row, whole); }));
    if (page.size() < static_cast<size_t>(AtLeastZero(limit))) {
      LUTHIER_RETURN_IF_ERROR(CheckEnd(study.key, page.empty() ? after : page.back().number));
    }
    return page;
  });
}

absl::StatusOr<std::vector<study::Measurement>> SqliteReader::ListMeasurements(StudyKey study, int64_t trial,
                                                                               int32_t attempt) {
  return Guarded([&] {
    const ResetGuard guard(&list_measurements_);
    Bind(list_measurements_, 1, study);
    Bind(list_measurements_, 2, trial);
    Bind(list_measurements_, 3, int64_t{attempt});
    return Rows(list_measurements_, MeasurementRow);
  });
}

absl::StatusOr<std::vector<Event>> SqliteReader::ListEvents(StudyKey study, uint64_t after, int limit) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return Guarded([&] {
    const ResetGuard guard(&list_events_);
    Bind(list_events_, 1, study);
    Bind(list_events_, 2, std::min(after, kMax));
    Bind(list_events_, 3, int64_t{AtLeastZero(limit)});
    return Rows(list_events_, EventRow);
  });
}

absl::StatusOr<std::vector<Event>> SqliteReader::ListEventsBefore(StudyKey study, uint64_t before, int limit) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return Guarded([&] {
    const ResetGuard guard(&list_events_before_);
    Bind(list_events_before_, 1, study);
    Bind(list_events_before_, 2, std::min(before, kMax));
    Bind(list_events_before_, 3, int64_t{AtLeastZero(limit)});
    return Rows(list_events_before_, EventRow);
  });
}

absl::StatusOr<std::vector<SetAside>> SqliteReader::ListSetAside(StudyKey study, int64_t after, int limit) {
  return Guarded([&] {
    const ResetGuard guard(&list_set_aside_);
    Bind(list_set_aside_, 1, study);
    Bind(list_set_aside_, 2, after);
    Bind(list_set_aside_, 3, int64_t{AtLeastZero(limit)});
    return Rows(list_set_aside_, SetAsideRow);
  });
}

absl::StatusOr<std::optional<RequestRecord>> SqliteReader::FindRequest(const std::string& id) {
  return Guarded([&]() -> absl::StatusOr<std::optional<RequestRecord>> {
    const ResetGuard guard(&find_request_);
    BindBlob(find_request_, 1, id);
    if (!find_request_.executeStep()) return std::nullopt;
    RequestRecord record;
    record.id = StringColumn(find_request_, 0);
    record.digest = StringColumn(find_request_, 1);
    record.uptime = absl::Nanoseconds(Int64Column(find_request_, 3));
    if (!IsWhole(find_request_, 5)) {
      record.reply = DamagedReply{};
    } else if (Int64Column(find_request_, 4) == 0) {
      record.reply = LegacyReply{StringColumn(find_request_, 2)};
    } else {
      absl::StatusOr<StoredReply> reply = DecodeReply(BytesColumn(find_request_, 2));
      record.reply = reply.ok() ? *std::move(reply) : StoredReply(DamagedReply{});
    }
    return record;
  });
}

absl::StatusOr<Storage::Summary> SqliteReader::Summarize(const StudyRecord& study) {
  return InTransaction([&]() -> absl::StatusOr<Storage::Summary> {
    Storage::Summary summary;
    for (size_t i = 0; i < summary.by_state.size(); ++i) {
      const ResetGuard guard(&count_in_state_);
      Bind(count_in_state_, 1, study.key);
      BindName(count_in_state_, 2, study::TrialStateName(static_cast<study::TrialState>(i)).data());
      count_in_state_.executeStep();
      summary.by_state[i] = Int64Column(count_in_state_, 0);
    }
    {
      const ResetGuard guard(&count_removed_);
      Bind(count_removed_, 1, study.key);
      while (count_removed_.executeStep()) {
        const std::optional<study::TrialState> state = study::ParseTrialState(BytesColumn(count_removed_, 1));
        if (!state) return Damaged(study.key, "an index of its trials");
        const int64_t count = Int64Column(count_removed_, 2);
        if (Int64Column(count_removed_, 0) == kRetried) {
          summary.retried += count;
          continue;
        }
        summary.by_state[static_cast<size_t>(*state)] -= count;
        summary.deleted += count;
      }
    }
    {
      const ResetGuard guard(&sum_resource_);
      Bind(sum_resource_, 1, study.key);
      sum_resource_.executeStep();
      summary.resource_spent = Int64Column(sum_resource_, 0);
    }
    {
      const ResetGuard guard(&count_trainings_);
      Bind(count_trainings_, 1, study.key);
      while (count_trainings_.executeStep()) {
        const auto number = static_cast<v1::Training::Outcome>(Int64Column(count_trainings_, 0));
        const absl::StatusOr<study::TrainingOutcome> outcome = wire::FromProto(number);
        if (!outcome.ok()) return Damaged(study.key, "an index of its trials");
        summary.trainings[static_cast<size_t>(*outcome)] = Int64Column(count_trainings_, 1);
      }
    }
    if (study::ObjectiveCount(study.spec) > 1) return summary;
    SQLite::Statement& best = study.spec.metric.goal == study::Goal::kMaximize ? greatest_value_ : least_value_;
    const ResetGuard best_guard(&best);
    Bind(best, 1, study.key);
    if (best.executeStep()) {
      summary.best_trial = Int64Column(best, 0);
      summary.best_value = DoubleColumn(best, 1);
    }
    return summary;
  });
}

absl::StatusOr<std::unique_ptr<ReaderPool>> ReaderPool::Open(const ConnectionOptions& options, int size) {
  auto pool = std::make_unique<ReaderPool>();
  for (int i = 0; i < size; ++i) {
    LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<SqliteReader> reader, SqliteReader::Open(options));
    pool->readers_.push_back(std::move(reader));
  }
  base::MutexLock lock(&pool->mutex_);
  for (const auto& reader : pool->readers_) pool->idle_.push_back(reader.get());
  return pool;
}

SqliteReader* ReaderPool::Take() {
  base::MutexLock lock(&mutex_);
  while (idle_.empty()) idle_again_.Wait(&mutex_);
  // The reader that was idle longest is taken, so that all caches fill soon and memory then stays the same.
  SqliteReader* reader = idle_.front();
  idle_.pop_front();
  return reader;
}

void ReaderPool::GiveBack(SqliteReader* reader) {
  base::MutexLock lock(&mutex_);
  idle_.push_back(reader);
  idle_again_.Signal();
}

}  // namespace luthier::storage
