#include "server/storage/sqlite_writer.h"

#include <SQLiteCpp/Column.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "server/storage/damage.h"
#include "server/storage/record_codec.h"
#include "server/storage/row_sums.h"
#include "server/storage/rules.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

// Readers that hold an old view keep the WAL from being reused. When it has grown to so many times its usual length,
// the checkpoint waits for them.
constexpr int kWaitForReadersFactor = 8;
constexpr int kWaitForReadersMs = 100;  // Longest wait for readers; commits wait, too.

int Run(SQLite::Statement& statement) {
  const ResetGuard guard(&statement);
  return statement.exec();
}

// SQLite makes NaN NULL and drops the sign of -0.0 in REAL columns.
bool RealColumnKeeps(double value) {
  return std::isfinite(value) && !(value == 0.0 && std::signbit(value));
}

// Returns the study whose rows a mutation writes, or kDamagedRequests; 0: rows of no study, or of all.
StudyKey StudyOf(const Mutation& mutation) {
  if (const auto* m = std::get_if<PutStudy>(&mutation)) return m->record.key;
  if (const auto* m = std::get_if<DeleteStudy>(&mutation)) return m->key;
  if (const auto* m = std::get_if<HideStudy>(&mutation)) return m->key;
  if (const auto* m = std::get_if<UnhideStudy>(&mutation)) return m->key;
  if (const auto* m = std::get_if<PutFormerSpec>(&mutation)) return m->study;
  if (const auto* m = std::get_if<PutTrial>(&mutation)) return m->study;
  if (const auto* m = std::get_if<PutMeasurement>(&mutation)) return m->record.study;
  const bool request = std::holds_alternative<PutRequest>(mutation) || std::holds_alternative<ChangeRequest>(mutation);
  return request ? kDamagedRequests : 0;
}

std::array<char, 8> BigEndian(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  std::array<char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bits >> (56 - 8 * i) & 0xFF);
  return bytes;
}

}  // namespace

SqliteWriter::SqliteWriter(std::unique_ptr<SQLite::Database> db, int checkpoint_pages, Health* health)
    : db_(std::move(db)),
      checkpoint_pages_(checkpoint_pages),
      health_(health),
      begin_(*db_, "BEGIN IMMEDIATE"),
      commit_(*db_, "COMMIT"),
      roll_back_(*db_, "ROLLBACK"),
      last_seq_(*db_, "SELECT coalesce(max(seq), 0) FROM event"),
      get_counter_(*db_, "SELECT value, sum = " LUTHIER_COUNTER_SUM " FROM counter WHERE name = ?1"),
      set_counter_(*db_, "UPDATE counter SET value = ?2, sum = row_sum('counter', ?1, ?2) WHERE name = ?1"),
      find_study_(*db_, "SELECT id, spec, newest_trial, events, sum = " LUTHIER_STUDY_SUM
                        " FROM study WHERE key = ?1 AND id < '~'"),
      insert_study_(*db_,
                    "INSERT INTO study (key, state, state_reason, create_time_ns, update_time_ns, create_seq,"
                    " update_seq, resume_seq, added_trials, bytes, create_uptime_ns, newest_trial, events, spec, id,"
                    " created_digest, owner, sum)"
                    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"
                    " row_sum('study', ?1, ?15, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?14, ?9, ?16, ?10, ?11, ?12, ?13, ?17,"
                    " '', 0, 0))"),
      // Changes no damaged row, since the new checksum would hide the damage.
      update_study_(
          *db_,
          "UPDATE study SET state = ?2, state_reason = ?3, create_time_ns = ?4, update_time_ns = ?5,"
          " create_seq = ?6, update_seq = ?7, resume_seq = ?8, added_trials = ?9, bytes = ?10,"
          " create_uptime_ns = ?11, newest_trial = ?12, events = ?13, sum ="
          " row_sum('study', key, id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, spec, ?9, created_digest, ?10, ?11, ?12, ?13,"
          " owner, hidden_id, hidden_time_ns, hidden_uptime_ns)"
          " WHERE key = ?1 AND sum = " LUTHIER_STUDY_SUM),
      update_spec_(*db_,
                   "UPDATE study SET state = ?2, state_reason = ?3, create_time_ns = ?4, update_time_ns = ?5,"
                   " create_seq = ?6, update_seq = ?7, resume_seq = ?8, added_trials = ?9, bytes = ?10,"
                   " create_uptime_ns = ?11, newest_trial = ?12, events = ?13, spec = ?14, sum ="
                   " row_sum('study', key, id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?14, ?9, created_digest, ?10, ?11, ?12, ?13,"
                   " owner, hidden_id, hidden_time_ns, hidden_uptime_ns)"
                   " WHERE key = ?1 AND sum = " LUTHIER_STUDY_SUM),
      update_added_(*db_,
                    "UPDATE study SET newest_trial = ?2, events = ?3, sum ="
                    " row_sum('study', key, id, state, state_reason, create_time_ns, update_time_ns, create_seq,"
                    " update_seq, resume_seq, spec, added_trials, created_digest, bytes, create_uptime_ns, ?2, ?3,"
                    " owner, hidden_id, hidden_time_ns, hidden_uptime_ns)"
                    " WHERE key = ?1 AND id < '~' AND sum = " LUTHIER_STUDY_SUM),
      delete_study_(
          *db_,
          "UPDATE study SET id = '~' || key, hidden_id = '', hidden_time_ns = 0, hidden_uptime_ns = 0, sum "
          "= " LUTHIER_STUDY_SUM_OF("'~' || key", "''", "0", "0") " WHERE key = ?1 AND (id < '~' OR hidden_id <> '')"),
      // Neither changes a damaged row.
      hide_study_(*db_,
                  "UPDATE study SET id = '~' || key, hidden_id = id, hidden_time_ns = ?2, hidden_uptime_ns = ?3, sum "
                  "= " LUTHIER_STUDY_SUM_OF("'~' || key", "id", "?2",
                                            "?3") " WHERE key = ?1 AND id < '~' AND sum = " LUTHIER_STUDY_SUM),
      find_hidden_(*db_, "SELECT key FROM study WHERE key = ?1 AND hidden_id <> ''"),
      unhide_study_(*db_,
                    "UPDATE study SET id = ?2, hidden_id = '', hidden_time_ns = 0, hidden_uptime_ns = 0, sum "
                    "= " LUTHIER_STUDY_SUM_OF("?2", "''", "0",
                                              "0") " WHERE key = ?1 AND hidden_id <> '' AND sum = " LUTHIER_STUDY_SUM),
      erase_measurements_(*db_,
                          "DELETE FROM measurement WHERE study = ?1 AND (trial, attempt, step) IN"
                          " (SELECT trial, attempt, step FROM measurement WHERE study = ?1 LIMIT ?2)"),
      erase_trials_(*db_,
                    "DELETE FROM trial WHERE study = ?1 AND number IN"
                    " (SELECT number FROM trial WHERE study = ?1 LIMIT ?2)"),
      erase_study_(*db_, "DELETE FROM study WHERE key = ?1"),
      put_former_spec_(*db_,
                       "INSERT INTO former_spec (study, until_seq, max_trials, spec, back, sum)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, row_sum('former_spec', ?1, ?2, ?3, ?4, ?5))"),
      // Changes no row if the state of a final trial would change.
      put_trial_(
          *db_,
          "INSERT INTO trial (study, number, state, value, create_seq, finish_seq, body, resource,"
          " training, removed, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
          " row_sum('trial', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10))"
          " ON CONFLICT (study, number) DO UPDATE SET state = excluded.state, value = excluded.value,"
          " create_seq = excluded.create_seq, finish_seq = excluded.finish_seq, body = excluded.body,"
          " resource = excluded.resource, training = excluded.training, removed = excluded.removed, sum = excluded.sum"
          " WHERE trial.state IN ('PENDING', 'RUNNING', 'PAUSED') OR trial.state = excluded.state"),
      put_measurement_(*db_,
                       "INSERT INTO measurement (study, trial, attempt, step, body, sum)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, row_sum('measurement', ?1, ?2, ?3, ?4, ?5))"
                       " ON CONFLICT (study, trial, attempt, step) DO UPDATE SET body = excluded.body,"
                       " sum = excluded.sum"),
      append_event_(*db_,
                    "INSERT INTO event (seq, time_ns, study, study_id, trial, attempt, type, actor, detail, value,"
                    " value_bits, facts, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
                    " row_sum('event', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))"),
      put_request_(*db_,
                   "INSERT INTO request (id, digest, reply, uptime_ns, typed, sum)"
                   " VALUES (?1, ?2, ?3, ?4, 1, row_sum('request', ?1, ?2, ?3, ?4, 1))"),
      change_request_(*db_,
                      "UPDATE request SET digest = ?2, reply = ?3, uptime_ns = ?4, typed = 1,"
                      " sum = row_sum('request', ?1, ?2, ?3, ?4, 1) WHERE id = ?1"),
      forget_requests_(*db_, "DELETE FROM request WHERE uptime_ns < ?1"),
      written_(db_->getHandle()),
      next_checkpoint_(checkpoint_pages) {
  sqlite3_wal_hook(
      db_->getHandle(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<SqliteWriter*>(self)->wal_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

absl::StatusOr<std::unique_ptr<SqliteWriter>> SqliteWriter::Create(std::unique_ptr<SQLite::Database> db,
                                                                   int checkpoint_pages, Health* health) {
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<SqliteWriter>> {
    auto writer = std::unique_ptr<SqliteWriter>(new SqliteWriter(std::move(db), checkpoint_pages, health));
    LUTHIER_RETURN_IF_ERROR(writer->LoadCounters());
    return writer;
  });
}

absl::Status SqliteWriter::LoadCounters() {
  {
    const ResetGuard guard(&last_seq_);
    last_seq_.executeStep();
    counters_.seq = Uint64Column(last_seq_, 0);
  }
  for (const char* name : {"fence", "study_key", "uptime_ns"}) {
    const ResetGuard guard(&get_counter_);
    BindName(get_counter_, 1, name);
    if (!get_counter_.executeStep() || Int64Column(get_counter_, 1) != 1) {
      return Damaged(0, absl::StrCat("the counter ", name));
    }
    const int64_t value = Int64Column(get_counter_, 0);
    if (name[0] == 'f') {
      counters_.fence = static_cast<uint64_t>(value);
    } else if (name[0] == 'u') {
      counters_.uptime = absl::Nanoseconds(value);
    } else {
      counters_.key = value;
    }
  }
  return absl::OkStatus();
}

absl::Status SqliteWriter::Commit(const WriteBatch& batch) {
  LUTHIER_RETURN_IF_ERROR(health_->Get());
  for (const Mutation& mutation : batch) LUTHIER_RETURN_IF_ERROR(CheckMutation(mutation));
  if (batch.empty()) return absl::OkStatus();
  LUTHIER_RETURN_IF_ERROR(CheckFiles());
  const Counters before = counters_;
  const bool kept = keep_requests_;
  absl::Status status = Guarded([&] { return ApplyAll(batch); });
  for (int again = keep_requests_ != kept ? 1 : 0; !status.ok(); --again) {
    counters_ = before;
    studies_.clear();
    status = RollBack(std::move(status));
    if (again <= 0 || !health_->Get().ok()) return status;
    status = Guarded([&] { return ApplyAll(batch); });
  }
  return AfterCommit();
}

absl::Status SqliteWriter::ApplyAll(const WriteBatch& batch) {
  const StudyKey keys_before = counters_.key;
  CountAdded(batch);
  Run(begin_);
  for (const Mutation& mutation : batch) {
    const absl::Status status =
        Guarded([&] { return std::visit([&](const auto& m) { return Apply(m, keys_before); }, mutation); });
    if (IsDamage(status) && std::holds_alternative<ForgetRequestsBefore>(mutation)) {
      base::LogError("storage_requests_damaged", {{"error", std::string(status.message())}});
      keep_requests_ = true;
    }
    if (!status.ok()) return DamageOf(status, StudyOf(mutation), "");
  }
  LUTHIER_RETURN_IF_ERROR(WriteAdded());
  if (counters_.key != keys_before) LUTHIER_RETURN_IF_ERROR(SetCounter("study_key", counters_.key));
  Run(commit_);
  return absl::OkStatus();
}

void SqliteWriter::CountAdded(const WriteBatch& batch) {
  added_.clear();
  for (const Mutation& mutation : batch) {
    if (const auto* put = std::get_if<PutTrial>(&mutation)) {
      Added& added = added_[put->study];
      added.newest_trial = std::max(added.newest_trial, put->record.trial.number);
    } else if (const auto* append = std::get_if<AppendEvent>(&mutation)) {
      ++added_[append->event.study].events;
    }
  }
}

void SqliteWriter::TakeAdded(StudyKey key, KnownStudy& known) {
  const auto found = added_.find(key);
  if (found == added_.end()) return;
  known.newest_trial = std::max(known.newest_trial, found->second.newest_trial);
  known.events += found->second.events;
  added_.erase(found);
}

absl::Status SqliteWriter::WriteAdded() {
  while (!added_.empty()) {
    const StudyKey key = added_.begin()->first;
    LUTHIER_ASSIGN_OR_RETURN(KnownStudy* const known, Find(key));
    if (known == nullptr) {  // The study was deleted, and its log goes on.
      added_.erase(key);
      continue;
    }
    TakeAdded(key, *known);
    Bind(update_added_, 1, key);
    Bind(update_added_, 2, known->newest_trial);
    Bind(update_added_, 3, known->events);
    if (Run(update_added_) != 1) return Damaged(key, "its row");
  }
  return absl::OkStatus();
}

absl::Status SqliteWriter::RollBack(absl::Status cause) {
  if (cause.code() == absl::StatusCode::kDataLoss && !IsDamage(cause)) {
    health_->Fail(cause);  // Nothing more is written.
    return cause;
  }
  if (sqlite3_get_autocommit(db_->getHandle()) != 0) return cause;  // SQLite rolled back by itself.
  const absl::Status rolled_back = Guarded([&] {
    Run(roll_back_);
    return absl::OkStatus();
  });
  if (rolled_back.ok()) return cause;
  const absl::Status unknown =
      absl::DataLossError(absl::StrCat(cause.message(), "; and then rolling back failed: ", rolled_back.message()));
  health_->Fail(unknown);
  return unknown;
}

absl::Status SqliteWriter::CheckFiles() {
  absl::Status status = written_.Check();
  if (!status.ok()) health_->Fail(status);
  return status;
}

absl::Status SqliteWriter::AfterCommit() {
  LUTHIER_RETURN_IF_ERROR(CheckFiles());
  return CheckpointIfDue();
}

// SQLite's own checkpoint after a commit swallows its errors and would try a failed sync again. Here the batch is
// durable in the WAL whatever happens, so its commit stands; but after an I/O error nothing more is written.
absl::Status SqliteWriter::CheckpointIfDue() {
  if (wal_pages_ < next_checkpoint_) return absl::OkStatus();
  const bool wait = wal_pages_ >= kWaitForReadersFactor * checkpoint_pages_;
  int log_pages = 0;
  int done_pages = 0;
  if (wait) sqlite3_busy_timeout(db_->getHandle(), kWaitForReadersMs);
  const int code = sqlite3_wal_checkpoint_v2(
      db_->getHandle(), nullptr, wait ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, &log_pages, &done_pages);
  if (wait) sqlite3_busy_timeout(db_->getHandle(), kBusyTimeoutMs);
  // A reader is in the way, or the disk is full: the WAL grows on meanwhile.
  next_checkpoint_ = checkpoint_pages_;
  if (code == SQLITE_OK && done_pages == log_pages) return CheckFiles();
  next_checkpoint_ = wal_pages_ + checkpoint_pages_;
  const int primary = code & 0xFF;
  if (primary == SQLITE_OK || primary == SQLITE_BUSY || primary == SQLITE_LOCKED) return CheckFiles();
  const absl::Status status = ToStatus(code, db_->getHandle());
  base::LogError("storage_checkpoint_failed", {{"error", std::string(status.message())}});
  if (status.code() == absl::StatusCode::kDataLoss) health_->Fail(status);
  return absl::OkStatus();  // The commit stands.
}

absl::Status SqliteWriter::CheckpointAll() {
  LUTHIER_RETURN_IF_ERROR(health_->Get());
  const int code = sqlite3_wal_checkpoint_v2(db_->getHandle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if ((code & 0xFF) == SQLITE_BUSY) return absl::OkStatus();  // Another process reads: the WAL stays, and is sound.
  const absl::Status status = ToStatus(code, db_->getHandle());
  if (status.code() == absl::StatusCode::kDataLoss) health_->Fail(status);
  // The WAL is empty now; closing may remove it.
  if (status.ok()) sqlite3_db_config(db_->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return status;
}

absl::Status SqliteWriter::SetCounter(const char* name, int64_t value) {
  BindName(set_counter_, 1, name);
  Bind(set_counter_, 2, value);
  if (Run(set_counter_) == 1) return absl::OkStatus();
  return Damaged(0, absl::StrCat("the counter ", name));
}

absl::StatusOr<SqliteWriter::KnownStudy*> SqliteWriter::Find(StudyKey key) {
  if (const auto found = studies_.find(key); found != studies_.end()) return &found->second;
  const ResetGuard guard(&find_study_);
  Bind(find_study_, 1, key);
  if (!find_study_.executeStep()) return nullptr;
  KnownStudy study;
  study.id = StringColumn(find_study_, 0);
  if (Int64Column(find_study_, 4) != 1) return Damaged(key, "its row");
  absl::StatusOr<study::StudySpec> spec = DecodeSpec(BytesColumn(find_study_, 1));
  if (!spec.ok()) return Damaged(key, "its spec");
  study.spec = *std::move(spec);
  study.newest_trial = Int64Column(find_study_, 2);
  study.events = Int64Column(find_study_, 3);
  return &(studies_[key] = std::move(study));
}

namespace {

// Parameters ?1 to ?13, in the order insert and update share.
void BindStudy(SQLite::Statement& statement, const StudyRecord& r, int64_t newest_trial, int64_t events) {
  Bind(statement, 1, r.key);
  BindName(statement, 2, study::StudyStateName(r.state).data());
  BindText(statement, 3, r.state_reason);
  Bind(statement, 4, TimeToNanos(r.create_time));
  Bind(statement, 5, TimeToNanos(r.update_time));
  Bind(statement, 6, r.create_seq);
  Bind(statement, 7, r.update_seq);
  Bind(statement, 8, r.resume_seq);
  Bind(statement, 9, r.added_trials);
  Bind(statement, 10, r.bytes);
  Bind(statement, 11, absl::ToInt64Nanoseconds(r.create_uptime));
  Bind(statement, 12, newest_trial);
  Bind(statement, 13, events);
}

}  // namespace

absl::Status SqliteWriter::Apply(const PutStudy& put, StudyKey keys_before) {
  const StudyRecord& r = put.record;
  LUTHIER_ASSIGN_OR_RETURN(KnownStudy* const known, Find(r.key));
  if (known == nullptr) return InsertStudy(r, keys_before);
  LUTHIER_RETURN_IF_ERROR(CheckSameStudy(known->id, known->spec, r));
  TakeAdded(r.key, *known);
  SQLite::Statement& update = known->spec == r.spec ? update_study_ : update_spec_;
  BindStudy(update, r, known->newest_trial, known->events);
  std::string spec;
  if (&update == &update_spec_) {
    LUTHIER_ASSIGN_OR_RETURN(spec, EncodeSpec(r.spec));
    BindBlob(update, 14, spec);
    known->spec = r.spec;
  }
  return Run(update) == 1 ? absl::OkStatus() : Damaged(r.key, "its row");
}

absl::Status SqliteWriter::InsertStudy(const StudyRecord& r, StudyKey keys_before) {
  LUTHIER_RETURN_IF_ERROR(counters_.TakeNewStudy(r.key, keys_before));
  LUTHIER_ASSIGN_OR_RETURN(const std::string spec, EncodeSpec(r.spec));
  KnownStudy known{r.id, r.spec, 0, 0};
  TakeAdded(r.key, known);
  BindStudy(insert_study_, r, known.newest_trial, known.events);
  BindBlob(insert_study_, 14, spec);
  BindText(insert_study_, 15, r.id);
  BindText(insert_study_, 16, r.created_digest);
  BindText(insert_study_, 17, r.owner);
  Run(insert_study_);
  studies_[r.key] = std::move(known);
  return absl::OkStatus();
}

absl::Status SqliteWriter::Apply(const DeleteStudy& deletion, StudyKey) {
  counters_.TakeDeletedStudy(deletion.key);
  studies_.erase(deletion.key);
  Bind(delete_study_, 1, deletion.key);
  Run(delete_study_);
  return absl::OkStatus();
}

absl::Status SqliteWriter::Apply(const HideStudy& hiding, StudyKey) {
  LUTHIER_ASSIGN_OR_RETURN(const KnownStudy* const known, Find(hiding.key));
  if (known == nullptr) return NotThereToHide(hiding.key);
  studies_.erase(hiding.key);
  Bind(hide_study_, 1, hiding.key);
  Bind(hide_study_, 2, TimeToNanos(hiding.deletion.time));
  Bind(hide_study_, 3, absl::ToInt64Nanoseconds(hiding.deletion.uptime));
  return Run(hide_study_) == 1 ? absl::OkStatus() : Damaged(hiding.key, "its row");
}

absl::Status SqliteWriter::Apply(const UnhideStudy& unhiding, StudyKey) {
  {
    const ResetGuard guard(&find_hidden_);
    Bind(find_hidden_, 1, unhiding.key);
    if (!find_hidden_.executeStep()) return NotHidden(unhiding.key);
  }
  Bind(unhide_study_, 1, unhiding.key);
  BindText(unhide_study_, 2, unhiding.id);
  return Run(unhide_study_) == 1 ? absl::OkStatus() : Damaged(unhiding.key, "its row");
}

absl::StatusOr<bool> SqliteWriter::Erase(StudyKey study, int rows) {
  LUTHIER_RETURN_IF_ERROR(health_->Get());
  LUTHIER_RETURN_IF_ERROR(CheckFiles());
  bool left = true;
  absl::Status status = Guarded([&] {
    Run(begin_);
    int erased = 0;
    for (SQLite::Statement* erase : {&erase_measurements_, &erase_trials_}) {
      if (erased >= rows) break;
      Bind(*erase, 1, study);
      Bind(*erase, 2, int64_t{rows - erased});
      erased += Run(*erase);
    }
    if (erased < rows) {
      Bind(erase_study_, 1, study);
      Run(erase_study_);
      left = false;
    }
    Run(commit_);
    return absl::OkStatus();
  });
  if (!status.ok()) return RollBack(std::move(status));
  LUTHIER_RETURN_IF_ERROR(AfterCommit());
  return left;
}

absl::Status SqliteWriter::Apply(const PutFormerSpec& put, StudyKey) {
  const FormerSpec& former = put.former;
  std::string spec;
  Bind(put_former_spec_, 1, put.study);
  Bind(put_former_spec_, 2, former.until_seq);
  Bind(put_former_spec_, 3, former.max_trials);
  if (former.spec) {
    LUTHIER_ASSIGN_OR_RETURN(spec, EncodeSpec(*former.spec));
    BindBlob(put_former_spec_, 4, spec);
  } else {
    put_former_spec_.bind(4);
  }
  std::string back;
  if (former.back) {
    back = EncodeWayBack(*former.back);
    BindBlob(put_former_spec_, 5, back);
  } else {
    put_former_spec_.bind(5);
  }
  Run(put_former_spec_);
  return absl::OkStatus();
}

absl::Status SqliteWriter::Apply(const PutTrial& put, StudyKey) {
  LUTHIER_ASSIGN_OR_RETURN(const KnownStudy* known, Find(put.study));
  if (known == nullptr) return TrialWithoutStudy(put.study);
  const TrialRecord& r = put.record;
  const std::string body = EncodeTrialBody(r);
  Bind(put_trial_, 1, put.study);
  Bind(put_trial_, 2, r.trial.number);
  BindName(put_trial_, 3, study::TrialStateName(r.trial.state).data());
  Bind(put_trial_, 4, RankedValue(r, known->spec));
  Bind(put_trial_, 5, r.create_seq);
  Bind(put_trial_, 6, r.finish_seq);
  BindBlob(put_trial_, 7, body);
  Bind(put_trial_, 8, study::ResourceSpent(r.trial));
  const std::optional<study::TrainingOutcome> training = CountedTraining(r);
  Bind(put_trial_, 9, static_cast<int64_t>(training ? wire::ToProto(*training) : v1::Training::OUTCOME_UNSPECIFIED));
  Bind(put_trial_, 10, int64_t{r.trial.deleted ? 2 : study::IsRemoved(r.trial) ? 1 : 0});
  if (Run(put_trial_) == 1) return absl::OkStatus();
  return FinalTrialWouldChange(r.trial.number);
}

absl::Status SqliteWriter::Apply(const PutMeasurement& put, StudyKey) {
  const MeasurementRecord& r = put.record;
  const std::string body = EncodeMeasurement(r.measurement);
  Bind(put_measurement_, 1, r.study);
  Bind(put_measurement_, 2, r.trial);
  Bind(put_measurement_, 3, int64_t{r.attempt});
  Bind(put_measurement_, 4, r.measurement.step);
  BindBlob(put_measurement_, 5, body);
  Run(put_measurement_);
  return absl::OkStatus();
}

absl::Status SqliteWriter::Apply(const AppendEvent& append, StudyKey) {
  const Event& e = append.event;
  LUTHIER_RETURN_IF_ERROR(counters_.TakeSeq(e.seq));
  Bind(append_event_, 1, e.seq);
  Bind(append_event_, 2, TimeToNanos(e.time));
  Bind(append_event_, 3, e.study);
  BindText(append_event_, 4, e.study_id);
  Bind(append_event_, 5, e.trial);
  Bind(append_event_, 6, int64_t{e.attempt});
  Bind(append_event_, 7, static_cast<int64_t>(e.type));
  BindText(append_event_, 8, e.actor);
  BindText(append_event_, 9, e.detail);
  const bool plain = !e.value || RealColumnKeeps(*e.value);
  const std::array<char, 8> bits = BigEndian(e.value.value_or(0.0));
  Bind(append_event_, 10, plain ? e.value : std::nullopt);
  if (plain) {
    BindNull(append_event_, 11);
  } else {
    BindBlob(append_event_, 11, absl::string_view(bits.data(), bits.size()));
  }
  const std::string facts = EncodeEventFacts(e);
  BindBlob(append_event_, 12, facts);
  Run(append_event_);
  return absl::OkStatus();
}

namespace {

// Parameters ?1 to ?4, in the order insert and update share. `reply`: encoded; the statement keeps a pointer to it.
void BindRequest(SQLite::Statement& statement, const RequestRecord& record, const std::string& reply) {
  BindBlob(statement, 1, record.id);
  BindBlob(statement, 2, record.digest);
  BindBlob(statement, 3, reply);
  Bind(statement, 4, absl::ToInt64Nanoseconds(record.uptime));
}

}  // namespace

absl::Status SqliteWriter::Apply(const PutRequest& put, StudyKey) {
  const std::string reply = EncodeReply(put.record.reply);
  BindRequest(put_request_, put.record, reply);
  Run(put_request_);
  return absl::OkStatus();
}

absl::Status SqliteWriter::Apply(const ChangeRequest& change, StudyKey) {
  const std::string reply = EncodeReply(change.record.reply);
  BindRequest(change_request_, change.record, reply);
  return Run(change_request_) == 1 ? absl::OkStatus() : NoSuchRequest(change.record.id);
}

absl::Status SqliteWriter::Apply(const ForgetRequestsBefore& forget, StudyKey) {
  if (keep_requests_) return absl::OkStatus();
  Bind(forget_requests_, 1, absl::ToInt64Nanoseconds(forget.uptime));
  Run(forget_requests_);
  return absl::OkStatus();
}

absl::Status SqliteWriter::Apply(const SetUptime& set, StudyKey) {
  LUTHIER_RETURN_IF_ERROR(counters_.TakeUptime(set.uptime));
  return SetCounter("uptime_ns", absl::ToInt64Nanoseconds(set.uptime));
}

absl::Status SqliteWriter::Apply(const SetFence& set, StudyKey) {
  LUTHIER_RETURN_IF_ERROR(counters_.TakeFence(set.fence));
  return SetCounter("fence", static_cast<int64_t>(set.fence));
}

}  // namespace luthier::storage
