#include "server/storage/sqlite_storage.h"

#include <SQLiteCpp/Column.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "server/storage/backup.h"
#include "server/storage/damage.h"
#include "server/storage/page_sums.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

// Writes a backup under DIR/backups.
absl::StatusOr<std::string> BackUpNow(SQLite::Database& db, const std::string& directory) {
  std::string name;
  LUTHIER_RETURN_IF_ERROR(Guarded([&] {
    const int version = db.execAndGet("PRAGMA user_version").getInt();
    const int64_t seq = db.execAndGet("SELECT coalesce(max(seq), 0) FROM event").getInt64();
    name = absl::StrCat("luthier-v", version, "-seq", seq, ".db");
    return absl::OkStatus();
  }));
  const std::string backups = BackupsPath(directory);
  constexpr mode_t kBackupsMode = 0700;
  if (mkdir(backups.c_str(), kBackupsMode) == 0) {
    LUTHIER_RETURN_IF_ERROR(SyncDirectory(directory));
  } else if (errno != EEXIST) {
    return absl::FailedPreconditionError(absl::StrCat("can't make ", backups, ": ", std::strerror(errno)));
  }
  const std::string path = absl::StrCat(backups, "/", name);
  LUTHIER_RETURN_IF_ERROR(BackUp(db, path));
  return path;
}

constexpr int kSummedVersion = 13;  // First schema in which each page has a checksum.

// Runs SQLite's quick_check. May throw.
absl::Status QuickCheck(SQLite::Database& db) {
  const std::string result = db.execAndGet("PRAGMA quick_check(1)").getString();
  if (result == "ok") return absl::OkStatus();
  return Damaged(0, absl::StrCat("a page of the database (", result, ")"));
}

}  // namespace

SqliteStorage::SqliteStorage(SqliteOptions options)
    : options_(std::move(options)), health_(options_.unsafe_retry_after_io_error) {
  LUTHIER_CHECK(options_.readers >= 1 && options_.checkpoint_pages >= 1);
}

absl::StatusOr<std::unique_ptr<SqliteStorage>> SqliteStorage::Open(const SqliteOptions& options) {
  std::unique_ptr<SqliteStorage> storage(new SqliteStorage(options));
  absl::Status status = storage->OpenFiles();
  if (status.ok()) return storage;
  if (status.code() == absl::StatusCode::kDataLoss) status = storage->Unusable(status);
  // Connections that were opened are closed without a checkpoint.
  storage->readers_.reset();
  storage->writer_.reset();
  return status;
}

absl::Status SqliteStorage::Unusable(const absl::Status& status) const {
  return absl::DataLossError(absl::StrCat(DatabasePath(options_.directory), " can't be used: ", status.message(),
                                          ". Restore the newest backup of ", BackupsPath(options_.directory),
                                          " into a new directory (luthier admin restore)"));
}

ConnectionOptions SqliteStorage::Connection(bool writer) const {
  return {DatabasePath(options_.directory), options_.vfs, writer, options_.unsafe_normal_sync};
}

absl::Status SqliteStorage::OpenFiles() {
  if (!options_.read_only) {
    LUTHIER_RETURN_IF_ERROR(CheckWritable(options_.directory));
    LUTHIER_ASSIGN_OR_RETURN(lock_, DirectoryLock::Acquire(options_.directory));
    if (!options_.force_network_filesystem) LUTHIER_RETURN_IF_ERROR(CheckLocalFileSystem(options_.directory));
  }
  // Read before the database: a running server writes it after the database.
  std::optional<uint64_t> acknowledged;
  if (options_.vfs.empty()) {
    acknowledged = Acknowledged::Read(options_.directory);
    LUTHIER_RETURN_IF_ERROR(CheckWalThere(options_.directory, acknowledged));
  }
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<SQLite::Database> db, OpenDatabase());
  if (!options_.read_only) {
    LUTHIER_ASSIGN_OR_RETURN(writer_, SqliteWriter::Create(std::move(db), options_.checkpoint_pages, &health_));
  }
  LUTHIER_ASSIGN_OR_RETURN(readers_, ReaderPool::Open(Connection(/*writer=*/false), options_.readers));
  LUTHIER_ASSIGN_OR_RETURN(const uint64_t last_seq, LastSeq());
  LUTHIER_RETURN_IF_ERROR(CheckAcknowledged(options_.directory, acknowledged.value_or(0), last_seq));
  if (!options_.read_only && options_.vfs.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(acknowledged_, Acknowledged::Open(options_.directory));
    acknowledged_->Note(last_seq);
    if (!acknowledged && last_seq > 0) {
      base::LogWarning("storage_acknowledged_made_again",
                       {{"file", Acknowledged::Path(options_.directory)},
                        {"seq", absl::StrCat(last_seq)},
                        {"reason", "it did not say which event is the newest, so a shorter log would not be noticed"}});
    }
    LUTHIER_ASSIGN_OR_RETURN(held_, HeldFiles::Note(options_.directory, {"lock", "luthier.db", "luthier.db-wal",
                                                                         "luthier.db-shm", "acknowledged"}));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<StudyKey> deleted,
                           Read<std::vector<StudyKey>>([](SqliteReader& r) { return r.ListErasable(); }));
  base::MutexLock lock(&deleted_mutex_);
  deleted_.insert(deleted.begin(), deleted.end());
  erasable_ = deleted_;
  return absl::OkStatus();
}

void SqliteStorage::BeginPageCheck() {
  if (check_behind_ && !checker_.joinable()) checker_ = std::thread([this] { CheckPages(); });
}

// Uses a connection of its own, since it would take one from the readers for too long.
void SqliteStorage::CheckPages() {
  const absl::StatusOr<std::unique_ptr<SQLite::Database>> db = OpenConnection(Connection(/*writer=*/false));
  absl::Status status = db.status();
  if (db.ok()) {
    {
      base::MutexLock lock(&check_mutex_);
      if (check_stopped_) return;
      checking_ = db->get();
    }
    status = Guarded([&] { return QuickCheck(**db); });
  }
  base::MutexLock lock(&check_mutex_);
  checking_ = nullptr;
  if (status.ok() || check_stopped_) return;
  if (status.code() == absl::StatusCode::kDataLoss && !IsDamage(status)) health_.Fail(Unusable(status));
  base::LogError("storage_check_failed", {{"error", std::string(status.message())}});
}

void SqliteStorage::StopCheck() {
  {
    base::MutexLock lock(&check_mutex_);
    check_stopped_ = true;
    if (checking_ != nullptr) sqlite3_interrupt(checking_->getHandle());
  }
  if (checker_.joinable()) checker_.join();
}

// Returns a connection to a checked database with the newest schema and all pragmas.
absl::StatusOr<std::unique_ptr<SQLite::Database>> SqliteStorage::OpenDatabase() {
  const std::string path = DatabasePath(options_.directory);
  LUTHIER_ASSIGN_OR_RETURN(const DatabaseKind kind,
                           ProbeDatabase(path, options_.vfs.empty() ? nullptr : options_.vfs.c_str()));
  if (options_.read_only && kind == DatabaseKind::kNew) {
    return absl::FailedPreconditionError(absl::StrCat("there is no database in ", options_.directory));
  }
  if (kind == DatabaseKind::kNew && options_.vfs.empty()) {
    LUTHIER_RETURN_IF_ERROR(CheckNothingLost(options_.directory));
  }
  const ConnectionOptions connection = Connection(!options_.read_only);
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<SQLite::Database> db, OpenConnection(connection));
  LUTHIER_RETURN_IF_ERROR(BringUpToDate(*db));
  LUTHIER_RETURN_IF_ERROR(SetPragmas(*db, connection));
  return db;
}

absl::Status SqliteStorage::BringUpToDate(SQLite::Database& db) {
  LUTHIER_ASSIGN_OR_RETURN(const int version, SchemaVersion(db, options_.migrations));
  const int newest = options_.migrations.back().version;
  check_behind_ = options_.check_behind && version == newest;
  if (version >= kSummedVersion && !HasPageSums(db.getHandle())) return Damaged(0, "the header of the database");
  if (version > 0 && !check_behind_) LUTHIER_RETURN_IF_ERROR(Guarded([&] { return QuickCheck(db); }));
  if (version == newest) return absl::OkStatus();
  if (options_.read_only) {
    return absl::FailedPreconditionError(absl::StrCat(db.getFilename(), " has schema version ", version,
                                                      " and this program ", newest,
                                                      "; start the server once, which upgrades it"));
  }
  if (version > 0) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string backup, BackUpNow(db, options_.directory));
    base::LogInfo("storage_backed_up_before_migration", {{"file", backup}});
  }
  const absl::Status prepared = Guarded([&]() -> absl::Status {
    // A new file is made under a rollback journal, whose removal must be durable before the WAL takes over.
    db.exec("PRAGMA synchronous = EXTRA");
    if (version >= kSummedVersion) return absl::OkStatus();
    LUTHIER_RETURN_IF_ERROR(ReservePageSums(db.getHandle()));
    if (version > 0) db.exec("VACUUM");
    return absl::OkStatus();
  });
  LUTHIER_RETURN_IF_ERROR(prepared);
  return Migrate(db, options_.migrations, version);
}

SqliteStorage::~SqliteStorage() {
  const absl::Status status = Close();
  if (!status.ok()) base::LogError("storage_close_failed", {{"error", std::string(status.message())}});
}

absl::Status SqliteStorage::Close() {
  if (readers_ == nullptr) return absl::OkStatus();
  StopCheck();
  // If other files were put at these paths meanwhile, they are not touched.
  if (health_.Get().ok()) (void)CheckHeld();
  readers_.reset();
  held_.reset();
  absl::Status status;
  if (writer_ != nullptr && health_.Get().ok()) {
    status = writer_->CheckFiles();
    if (status.ok()) status = writer_->CheckpointAll();
  }
  writer_.reset();
  lock_.reset();
  health_.Fail(absl::FailedPreconditionError("storage is closed"));  // Keeps an earlier failure, which says more.
  return status;
}

absl::StatusOr<std::string> SqliteStorage::Backup() {
  LUTHIER_RETURN_IF_ERROR(health_.Get());
  if (!options_.vfs.empty()) return absl::FailedPreconditionError("backups need SQLite's default VFS");
  // Uses a connection of its own: a long copy must not take one from the readers. It is not query_only, which forbids
  // VACUUM INTO.
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<SQLite::Database> db, OpenConnection(Connection(/*writer=*/false)));
  return BackUpNow(*db, options_.directory);
}

absl::Status SqliteStorage::CheckHeld() {
  LUTHIER_RETURN_IF_ERROR(health_.Get());
  if (held_ == nullptr) return absl::OkStatus();
  absl::Status status = held_->Check();
  if (status.ok()) status = acknowledged_->Check();
  if (!status.ok()) health_.Fail(status);
  return status;
}

absl::Status SqliteStorage::CheckFiles() {
  LUTHIER_RETURN_IF_ERROR(CheckHeld());
  LUTHIER_ASSIGN_OR_RETURN(const int64_t bytes,
                           Read<int64_t>([&](SqliteReader& r) { return r.CheckFiles(checked_bytes_); }));
  checked_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status SqliteStorage::Commit(const WriteBatch& batch) {
  LUTHIER_RETURN_IF_ERROR(health_.Get());
  if (writer_ == nullptr) return absl::FailedPreconditionError("the database was opened read-only");
  if (const absl::Status status = writer_->Commit(batch); !status.ok()) return Named(status, DamagedStudy(status));
  LUTHIER_RETURN_IF_ERROR(CheckHeld());
  if (acknowledged_ != nullptr) acknowledged_->Note(writer_->last_seq());
  for (const Mutation& mutation : batch) {
    const auto* const deletion = std::get_if<DeleteStudy>(&mutation);
    if (deletion == nullptr) continue;
    base::MutexLock lock(&deleted_mutex_);
    deleted_.insert(deletion->key);
    erasable_.insert(deletion->key);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteStorage::EraseSome(int rows) {
  LUTHIER_RETURN_IF_ERROR(health_.Get());
  if (writer_ == nullptr) return absl::FailedPreconditionError("the database was opened read-only");
  StudyKey study;
  {
    base::MutexLock lock(&deleted_mutex_);
    if (erasable_.empty()) return false;
    study = *erasable_.begin();
  }
  const absl::StatusOr<bool> left = writer_->Erase(study, rows);
  if (!left.ok() && !IsDamage(left.status())) return left.status();
  LUTHIER_RETURN_IF_ERROR(CheckHeld());
  base::MutexLock lock(&deleted_mutex_);
  if (!left.ok()) {  // Its rows stay, unseen, until the next start tries again.
    base::LogError("storage_erase_met_damage", {{"error", std::string(left.status().message())}});
    erasable_.erase(study);
  } else if (!*left) {
    deleted_.erase(study);
    erasable_.erase(study);
  }
  return !erasable_.empty();
}

bool SqliteStorage::IsDeleted(StudyKey study) {
  base::MutexLock lock(&deleted_mutex_);
  return deleted_.count(study) > 0;
}

template <typename T, typename F>
absl::StatusOr<T> SqliteStorage::Read(F&& f) {
  LUTHIER_RETURN_IF_ERROR(health_.Get());
  absl::StatusOr<T> result = readers_->With(std::forward<F>(f));
  if (result.status().code() == absl::StatusCode::kDataLoss && !IsDamage(result.status())) {
    health_.Fail(result.status());
  }
  return result;
}

template <typename T, typename F>
absl::StatusOr<T> SqliteStorage::ReadOf(StudyKey study, F&& f) {
  absl::StatusOr<T> result = Read<T>(std::forward<F>(f));
  return result.ok() ? std::move(result) : Named(result.status(), study);
}

absl::Status SqliteStorage::Named(const absl::Status& status, StudyKey study) {
  if (!IsDamage(status) || study == 0) return status;
  const absl::StatusOr<std::string> id = Read<std::string>([&](SqliteReader& r) { return r.IdOf(study); });
  return DamageOf(status, study, id.value_or(""));
}

absl::StatusOr<uint64_t> SqliteStorage::LastSeq() {
  return Read<uint64_t>([](SqliteReader& r) { return r.LastSeq(); });
}

absl::StatusOr<uint64_t> SqliteStorage::LastFence() {
  LUTHIER_ASSIGN_OR_RETURN(const int64_t fence, Read<int64_t>([](SqliteReader& r) { return r.Counter("fence"); }));
  return static_cast<uint64_t>(fence);
}

absl::StatusOr<absl::Duration> SqliteStorage::LastUptime() {
  LUTHIER_ASSIGN_OR_RETURN(const int64_t uptime, Read<int64_t>([](SqliteReader& r) { return r.Counter("uptime_ns"); }));
  return absl::Nanoseconds(uptime);
}

absl::StatusOr<StudyKey> SqliteStorage::LastStudyKey() {
  return Read<StudyKey>([](SqliteReader& r) { return r.Counter("study_key"); });
}

absl::StatusOr<std::vector<StudyRecord>> SqliteStorage::ListStudies(const std::string& after_id, int limit) {
  using Records = std::vector<StudyRecord>;
  absl::StatusOr<Records> whole = Read<Records>([&](SqliteReader& r) { return r.ListStudies(after_id, limit); });
  if (!IsDamage(whole.status())) return whole;
  // Reads studies one by one. For those whose rows can't be read, the index has the id.
  absl::StatusOr<Records> ids = Read<Records>([&](SqliteReader& r) { return r.ListStudyIds(after_id, limit); });
  LUTHIER_RETURN_IF_ERROR(ids.status());
  Records records;
  for (StudyRecord& outline : *ids) {
    absl::StatusOr<StudyRecord> record = GetStudy(outline.id);
    if (absl::IsNotFound(record.status())) continue;  // The study was deleted meanwhile.
    if (!record.ok() && !IsDamage(record.status())) return record.status();
    if (!record.ok()) outline.damage = record.status();
    records.push_back(record.ok() ? *std::move(record) : std::move(outline));
  }
  return records;
}

absl::StatusOr<std::vector<StudyRecord>> SqliteStorage::ListDeleted(StudyKey after, int limit) {
  return Read<std::vector<StudyRecord>>([&](SqliteReader& r) { return r.ListDeleted(after, limit); });
}

absl::StatusOr<StudyRecord> SqliteStorage::GetStudy(const std::string& id) {
  absl::StatusOr<StudyRecord> record = Read<StudyRecord>([&](SqliteReader& r) { return r.GetStudy(id); });
  return record.ok() ? std::move(record) : DamageOf(record.status(), 0, id);
}

absl::StatusOr<TrialRecord> SqliteStorage::GetTrial(StudyKey study, int64_t number) {
  if (IsDeleted(study)) return NoSuchTrial(study, number);
  return ReadOf<TrialRecord>(study, [&](SqliteReader& r) { return r.GetTrial(study, number); });
}

absl::StatusOr<std::vector<FormerSpec>> SqliteStorage::ListFormerSpecs(StudyKey study) {
  if (IsDeleted(study)) return std::vector<FormerSpec>();
  return ReadOf<std::vector<FormerSpec>>(study, [&](SqliteReader& r) { return r.ListFormerSpecs(study); });
}

absl::StatusOr<std::vector<TrialRecord>> SqliteStorage::ListTrials(StudyKey study, const TrialFilter& filter,
                                                                   int64_t after, int limit) {
  if (IsDeleted(study)) return std::vector<TrialRecord>();
  return ReadOf<std::vector<TrialRecord>>(study,
                                          [&](SqliteReader& r) { return r.ListTrials(study, filter, after, limit); });
}

absl::StatusOr<std::vector<TrialSketch>> SqliteStorage::SketchTrials(const StudyRecord& study,
                                                                     const std::vector<study::TrialState>& whole,
                                                                     int64_t after, int limit) {
  if (IsDeleted(study.key)) return std::vector<TrialSketch>();
  return ReadOf<std::vector<TrialSketch>>(study.key,
                                          [&](SqliteReader& r) { return r.SketchTrials(study, whole, after, limit); });
}

absl::StatusOr<std::vector<study::Measurement>> SqliteStorage::ListMeasurements(StudyKey study, int64_t trial,
                                                                                int32_t attempt) {
  if (IsDeleted(study)) return std::vector<study::Measurement>();
  return ReadOf<std::vector<study::Measurement>>(
      study, [&](SqliteReader& r) { return r.ListMeasurements(study, trial, attempt); });
}

absl::StatusOr<std::vector<Event>> SqliteStorage::ListEvents(StudyKey study, uint64_t after, int limit) {
  return ReadOf<std::vector<Event>>(study, [&](SqliteReader& r) { return r.ListEvents(study, after, limit); });
}
absl::StatusOr<std::vector<Event>> SqliteStorage::ListEventsBefore(StudyKey study, uint64_t before, int limit) {
  return ReadOf<std::vector<Event>>(study, [&](SqliteReader& r) { return r.ListEventsBefore(study, before, limit); });
}
absl::StatusOr<std::vector<SetAside>> SqliteStorage::ListSetAside(StudyKey study, int64_t after, int limit) {
  return ReadOf<std::vector<SetAside>>(study, [&](SqliteReader& r) { return r.ListSetAside(study, after, limit); });
}

absl::StatusOr<std::optional<RequestRecord>> SqliteStorage::FindRequest(const std::string& id) {
  return Read<std::optional<RequestRecord>>([&](SqliteReader& r) { return r.FindRequest(id); });
}

absl::StatusOr<Storage::Summary> SqliteStorage::Summarize(const StudyRecord& study) {
  if (IsDeleted(study.key)) return Summary();
  return ReadOf<Summary>(study.key, [&](SqliteReader& r) { return r.Summarize(study); });
}

}  // namespace luthier::storage
