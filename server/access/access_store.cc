#include "server/access/access_store.h"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "server/storage/connection.h"
#include "server/storage/damage.h"
#include "server/storage/data_directory.h"
#include "server/storage/page_sums.h"
#include "server/storage/sql.h"

namespace luthier::access {
namespace {

using storage::Bind;
using storage::BindText;
using storage::Guarded;
using storage::Int64Column;
using storage::StringColumn;

constexpr int64_t kVersion = 7;
constexpr int64_t kSummedVersion = 7;  // First version in which each page has a checksum (page_sums.h).

// Version 1 of the schema; later ones follow. Times are microseconds since 1970.
constexpr char kSchema[] = R"(
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, project TEXT NOT NULL, roles TEXT NOT NULL, commands INTEGER NOT NULL,
  hash TEXT NOT NULL, previous_hash TEXT NOT NULL, overlap_end INTEGER NOT NULL, create_time INTEGER NOT NULL,
  expire_time INTEGER NOT NULL, lifetime INTEGER NOT NULL, last_use_time INTEGER NOT NULL, revoke_time INTEGER NOT NULL
) STRICT;
CREATE TABLE projects (id TEXT PRIMARY KEY, create_time INTEGER NOT NULL) STRICT;
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, token TEXT NOT NULL, name TEXT NOT NULL,
  peer TEXT NOT NULL, method TEXT NOT NULL, object TEXT NOT NULL, request_id TEXT NOT NULL, outcome TEXT NOT NULL,
  times INTEGER NOT NULL
) STRICT;
)";

constexpr char kSchema2[] = R"(
ALTER TABLE projects ADD COLUMN studies INTEGER NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN running_trials INTEGER NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN waiting_asks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN suggest_cpu REAL NOT NULL DEFAULT 0;
)";

constexpr char kSchema3[] = "ALTER TABLE tokens ADD COLUMN certificate TEXT NOT NULL DEFAULT ''";

constexpr char kSchema4[] = "ALTER TABLE projects ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0";

// From this version on `audit` has changes alone. Numbers of changes and refusals are those of one sequence.
constexpr char kSchema5[] = R"(
CREATE TABLE refusals (
  number INTEGER PRIMARY KEY, time INTEGER NOT NULL, last_time INTEGER NOT NULL, token TEXT NOT NULL,
  name TEXT NOT NULL, peer TEXT NOT NULL, method TEXT NOT NULL, object TEXT NOT NULL, request_id TEXT NOT NULL,
  outcome TEXT NOT NULL, times INTEGER NOT NULL
) STRICT;
INSERT INTO refusals SELECT number, time, time, token, name, peer, method, object, request_id, outcome, times
  FROM audit WHERE outcome NOT IN ('OK', 'CANCELLED', 'REPLY_LOST', 'DROPPED');
DELETE FROM audit WHERE outcome NOT IN ('OK', 'CANCELLED', 'REPLY_LOST', 'DROPPED');
CREATE INDEX audit_by_token ON audit (token);
CREATE INDEX refusals_by_token ON refusals (token);
)";

constexpr char kSchema6[] = R"(
ALTER TABLE tokens ADD COLUMN request TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN unclaimed INTEGER NOT NULL DEFAULT 0;
CREATE TABLE requests (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, object TEXT NOT NULL
) STRICT;
)";

// Entries that a caller loses at a time, if several callers have most.
constexpr int64_t kTakenAtLeast = 16;

int64_t Micros(absl::Time time) {
  return absl::ToUnixMicros(time);  // Infinite times become the smallest and the largest number.
}

absl::Time TimeColumn(const SQLite::Statement& row, int column) {
  const int64_t micros = Int64Column(row, column);
  if (micros == INT64_MIN) return absl::InfinitePast();
  return micros == INT64_MAX ? absl::InfiniteFuture() : absl::FromUnixMicros(micros);
}

std::string RolesText(const std::set<Role>& roles) {
  return absl::StrJoin(roles, ",", [](std::string* out, Role role) { absl::StrAppend(out, ToString(role)); });
}

std::set<Role> RolesOf(absl::string_view text) {
  std::set<Role> roles;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    for (const Role role : kRoles) {
      if (ToString(role) == word) roles.insert(role);
    }
  }
  return roles;
}

// Refuses a database that is neither new nor one of tokens, before anything is written to it.
absl::Status CheckOurs(SQLite::Database& db) {
  const bool empty = db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
  const bool ours = db.execAndGet("PRAGMA application_id").getInt() == storage::kApplicationId;
  if (empty || (ours && db.tableExists("tokens"))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      db.getFilename(), " is a database ", ours ? "of studies, not of tokens" : "of another program",
      "; it was left untouched. Put the right file back, or restore a backup into a new directory (luthier admin "
      "restore)"));
}

// Makes room for checksums of pages in databases of older programs, which have none.
absl::Status PreparePages(SQLite::Database& db) {
  LUTHIER_RETURN_IF_ERROR(CheckOurs(db));
  const int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  if (version >= kSummedVersion) {
    return storage::HasPageSums(db.getHandle()) ? absl::OkStatus() : storage::Damaged(0, "its header");
  }
  LUTHIER_RETURN_IF_ERROR(storage::ReservePageSums(db.getHandle()));
  if (version > 0) db.exec("VACUUM");
  return absl::OkStatus();
}

absl::Status CheckVersion(SQLite::Database& db, const std::string& path) {
  const int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  if (version == kVersion) return absl::OkStatus();
  if (version < kVersion) {
    SQLite::Transaction transaction(db);
    if (version < 1) db.exec(kSchema);
    if (version < 2) db.exec(kSchema2);
    if (version < 3) db.exec(kSchema3);
    if (version < 4) db.exec(kSchema4);
    if (version < 5) db.exec(kSchema5);
    if (version < 6) db.exec(kSchema6);
    db.exec(absl::StrCat("PRAGMA application_id = ", storage::kApplicationId));
    db.exec(absl::StrCat("PRAGMA user_version = ", kVersion));
    transaction.commit();
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has version ", version, ", but this program knows ", kVersion, "; use a newer program"));
}

}  // namespace

absl::Time StoredTime(absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) return time;
  return absl::FromUnixMicros(absl::ToUnixMicros(time));
}

absl::StatusOr<std::unique_ptr<AccessStore>> AccessStore::Open(const std::string& directory, int64_t max_audit) {
  const std::string path = (std::filesystem::path(directory) / kFile).string();
  LUTHIER_RETURN_IF_ERROR(storage::CheckWritable(directory));
  LUTHIER_RETURN_IF_ERROR(storage::CheckTokensNotLost(directory));
  const mode_t before = umask(077);
  const storage::ConnectionOptions options{path, "", /*writer=*/true};
  absl::StatusOr<std::unique_ptr<SQLite::Database>> db = storage::OpenConnection(options);
  absl::Status ready = db.status();
  if (ready.ok()) ready = Guarded([&] { return PreparePages(**db); });
  if (ready.ok()) ready = storage::SetPragmas(**db, options);
  umask(before);
  if (storage::IsDamage(ready)) return storage::DamageOf(ready, 0, path);
  LUTHIER_RETURN_IF_ERROR(ready);
  LUTHIER_RETURN_IF_ERROR(Guarded([&]() -> absl::Status {
    (*db)->exec("PRAGMA wal_autocheckpoint = 1000");
    return CheckVersion(**db, path);
  }));
  const std::string name = kFile;
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<storage::HeldFiles> held,
                           storage::HeldFiles::Note(directory, {name, name + "-wal", name + "-shm"}));
  return std::unique_ptr<AccessStore>(new AccessStore(*std::move(db), std::move(held), max_audit));
}

AccessStore::~AccessStore() {
  // If other files were put at these paths meanwhile, they are not touched.
  base::MutexLock lock(&mutex_);
  if (!held_->Check().ok() || !written_.Check().ok()) return;
  const int code = sqlite3_wal_checkpoint_v2(db_->getHandle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (code != SQLITE_OK) base::LogWarning("access_checkpoint_failed", {{"error", sqlite3_errstr(code)}});
}

absl::Status AccessStore::CheckHeld() {
  LUTHIER_RETURN_IF_ERROR(held_->Check());
  base::MutexLock lock(&mutex_);
  return written_.Check();
}

template <typename F>
absl::Status AccessStore::Write(F&& f) {
  base::MutexLock lock(&mutex_);
  SQLite::Database& db = *db_;
  LUTHIER_RETURN_IF_ERROR(written_.Check());
  return Guarded([&]() -> absl::Status {
    mutex_.AssertHeld();
    SQLite::Transaction transaction(db);
    f(db);
    transaction.commit();
    LUTHIER_RETURN_IF_ERROR(written_.Check());
    return held_->Check();
  });
}

absl::StatusOr<std::vector<TokenRecord>> AccessStore::Tokens() {
  base::MutexLock lock(&mutex_);
  SQLite::Database& db = *db_;
  return Guarded([&]() -> absl::StatusOr<std::vector<TokenRecord>> {
    std::vector<TokenRecord> tokens;
    SQLite::Statement rows(db,
                           "SELECT id, name, project, roles, commands, hash, previous_hash, overlap_end, create_time, "
                           "expire_time, lifetime, last_use_time, revoke_time, certificate, request, unclaimed FROM "
                           "tokens ORDER BY create_time, id");
    while (rows.executeStep()) {
      TokenRecord t;
      t.id = StringColumn(rows, 0);
      t.name = StringColumn(rows, 1);
      t.projects = absl::StrSplit(StringColumn(rows, 2), ',');
      t.project = t.projects.front();
      if (t.projects.size() == 1) t.projects.clear();
      t.roles = RolesOf(StringColumn(rows, 3));
      t.commands = Int64Column(rows, 4) != 0;
      t.hash = StringColumn(rows, 5);
      t.previous_hash = StringColumn(rows, 6);
      t.overlap_end = TimeColumn(rows, 7);
      t.create_time = TimeColumn(rows, 8);
      t.expire_time = TimeColumn(rows, 9);
      t.lifetime = absl::Microseconds(Int64Column(rows, 10));
      t.last_use_time = TimeColumn(rows, 11);
      t.revoke_time = TimeColumn(rows, 12);
      t.certificate = StringColumn(rows, 13);
      t.request = StringColumn(rows, 14);
      t.unclaimed = Int64Column(rows, 15) != 0;
      tokens.push_back(std::move(t));
    }
    return tokens;
  });
}

absl::StatusOr<std::vector<ProjectRecord>> AccessStore::Projects() {
  base::MutexLock lock(&mutex_);
  SQLite::Database& db = *db_;
  return Guarded([&]() -> absl::StatusOr<std::vector<ProjectRecord>> {
    std::vector<ProjectRecord> projects;
    SQLite::Statement rows(
        db,
        "SELECT id, create_time, studies, running_trials, waiting_asks, suggest_cpu, bytes FROM projects "
        "ORDER BY id");
    while (rows.executeStep()) {
      const study::Quotas quotas{Int64Column(rows, 2), Int64Column(rows, 3), Int64Column(rows, 4),
                                 rows.getColumn(5).getDouble(), Int64Column(rows, 6)};
      projects.push_back({StringColumn(rows, 0), TimeColumn(rows, 1), quotas});
    }
    return projects;
  });
}

namespace {

void PutRequest(SQLite::Database& db, const ChangeRecord& request) {
  if (request.id.empty()) return;
  SQLite::Statement put(db, "INSERT OR REPLACE INTO requests (id, digest, object) VALUES (?, ?, ?)");
  BindText(put, 1, request.id);
  BindText(put, 2, request.digest);
  BindText(put, 3, request.object);
  put.exec();
  SQLite::Statement trim(db, "DELETE FROM requests WHERE number <= (SELECT MAX(number) FROM requests) - ?");
  Bind(trim, 1, AccessStore::kMaxRequests);
  trim.exec();
}

}  // namespace

absl::Status AccessStore::Put(const TokenRecord& t, const ChangeRecord& request) {
  return Write([&](SQLite::Database& db) {
    // Only NoteUse writes the last use, since it may know a newer one.
    SQLite::Statement put(
        db,
        "INSERT INTO tokens (id, name, project, roles, commands, hash, previous_hash, overlap_end, create_time, "
        "expire_time, lifetime, last_use_time, revoke_time, certificate, request, unclaimed) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name, "
        "project = excluded.project, roles = excluded.roles, commands = excluded.commands, hash = excluded.hash, "
        "previous_hash = excluded.previous_hash, overlap_end = excluded.overlap_end, "
        "create_time = excluded.create_time, expire_time = excluded.expire_time, lifetime = excluded.lifetime, "
        "revoke_time = excluded.revoke_time, certificate = excluded.certificate, request = excluded.request, "
        "unclaimed = excluded.unclaimed");
    const std::string roles = RolesText(t.roles);
    // Programs that know one project for each token find none with several names.
    const std::string projects = absl::StrJoin(t.all_projects(), ",");
    BindText(put, 1, t.id);
    BindText(put, 2, t.name);
    BindText(put, 3, projects);
    BindText(put, 4, roles);
    Bind(put, 5, int64_t{t.commands});
    BindText(put, 6, t.hash);
    BindText(put, 7, t.previous_hash);
    Bind(put, 8, Micros(t.overlap_end));
    Bind(put, 9, Micros(t.create_time));
    Bind(put, 10, Micros(t.expire_time));
    Bind(put, 11, absl::ToInt64Microseconds(t.lifetime));
    Bind(put, 12, Micros(t.last_use_time));
    Bind(put, 13, Micros(t.revoke_time));
    BindText(put, 14, t.certificate);
    BindText(put, 15, t.request);
    Bind(put, 16, int64_t{t.unclaimed});
    put.exec();
    PutRequest(db, request);
  });
}

absl::Status AccessStore::Put(const ProjectRecord& project, const ChangeRecord& request) {
  return Write([&](SQLite::Database& db) {
    SQLite::Statement put(db, "INSERT OR REPLACE INTO projects VALUES (?, ?, ?, ?, ?, ?, ?)");
    BindText(put, 1, project.id);
    Bind(put, 2, Micros(project.create_time));
    Bind(put, 3, project.quotas.studies);
    Bind(put, 4, project.quotas.running_trials);
    Bind(put, 5, project.quotas.waiting_asks);
    put.bind(6, project.quotas.suggest_cpu);
    Bind(put, 7, project.quotas.bytes);
    put.exec();
    PutRequest(db, request);
  });
}

absl::StatusOr<std::optional<ChangeRecord>> AccessStore::FindRequest(const std::string& id) {
  base::MutexLock lock(&mutex_);
  SQLite::Database& db = *db_;
  return Guarded([&]() -> absl::StatusOr<std::optional<ChangeRecord>> {
    SQLite::Statement rows(db, "SELECT id, digest, object FROM requests WHERE id = ?");
    BindText(rows, 1, id);
    if (!rows.executeStep()) return std::nullopt;
    return ChangeRecord{StringColumn(rows, 0), StringColumn(rows, 1), StringColumn(rows, 2)};
  });
}

absl::Status AccessStore::NoteClaims(const std::vector<std::pair<std::string, std::string>>& claims) {
  return Write([&](SQLite::Database& db) {
    SQLite::Statement set(db, "UPDATE tokens SET unclaimed = 0 WHERE id = ? AND hash = ?");
    for (const auto& [id, hash] : claims) {
      set.reset();
      BindText(set, 1, id);
      BindText(set, 2, hash);
      set.exec();
    }
  });
}

absl::Status AccessStore::NoteUse(const std::vector<std::pair<std::string, absl::Time>>& uses) {
  return Write([&](SQLite::Database& db) {
    SQLite::Statement set(db, "UPDATE tokens SET last_use_time = ? WHERE id = ?");
    for (const auto& [id, time] : uses) {
      set.reset();
      Bind(set, 1, Micros(time));
      BindText(set, 2, id);
      set.exec();
    }
  });
}

absl::Status AccessStore::Append(std::vector<AuditRecord>* entries) {
  base::MutexLock lock(&mutex_);
  const absl::Status status = Guarded([&]() -> absl::Status {
    mutex_.AssertHeld();
    SQLite::Transaction transaction(*db_);
    Count(&changes_);
    Count(&refusals_);
    SQLite::Statement again(*db_, "UPDATE refusals SET last_time = ?, times = ? WHERE number = ?");
    for (AuditRecord& entry : *entries) {
      if (entry.number == 0) {
        Insert(&entry, entry.refused ? &refusals_ : &changes_);
        continue;
      }
      again.reset();
      Bind(again, 1, Micros(entry.last_time));
      Bind(again, 2, entry.times);
      Bind(again, 3, entry.number);
      again.exec();
    }
    Trim(&changes_);
    Trim(&refusals_);
    transaction.commit();
    LUTHIER_RETURN_IF_ERROR(written_.Check());
    return held_->Check();
  });
  if (!status.ok()) changes_.counted = refusals_.counted = false;  // The transaction was undone.
  return status;
}

void AccessStore::Count(Shelf* shelf) {
  if (last_number_ < 0) {
    const int64_t given = db_->execAndGet("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence").getInt64();
    last_number_ = std::max(given, db_->execAndGet("SELECT COALESCE(MAX(number), 0) FROM refusals").getInt64());
  }
  if (shelf->counted) return;
  shelf->counts.clear();
  shelf->total = 0;
  SQLite::Statement rows(*db_, absl::StrCat("SELECT token, COUNT(*) FROM ", shelf->table, " GROUP BY token"));
  while (rows.executeStep()) {
    shelf->total += shelf->counts[StringColumn(rows, 0)] = Int64Column(rows, 1);
  }
  shelf->counted = true;
}

void AccessStore::Insert(AuditRecord* entry, Shelf* shelf) {
  SQLite::Statement add(
      *db_, entry->refused
                ? "INSERT INTO refusals (number, time, token, name, peer, method, object, request_id, outcome, times, "
                  "last_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                : "INSERT INTO audit (number, time, token, name, peer, method, object, request_id, outcome, times) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Bind(add, 1, ++last_number_);
  Bind(add, 2, Micros(entry->time));
  BindText(add, 3, entry->token);
  BindText(add, 4, entry->name);
  BindText(add, 5, entry->peer);
  BindText(add, 6, entry->method);
  BindText(add, 7, entry->object);
  BindText(add, 8, entry->request_id);
  BindText(add, 9, entry->outcome);
  Bind(add, 10, entry->times);
  if (entry->refused) Bind(add, 11, Micros(entry->last_time));
  add.exec();
  entry->number = last_number_;
  ++shelf->counts[entry->token];
  ++shelf->total;
}

void AccessStore::Trim(Shelf* shelf) {
  while (shelf->total > max_audit_) {
    auto most = shelf->counts.begin();
    int64_t second = 0;
    for (auto it = std::next(most); it != shelf->counts.end(); ++it) {
      if (it->second > most->second) {
        second = most->second;
        most = it;
      } else {
        second = std::max(second, it->second);
      }
    }
    const int64_t taken =
        std::min({shelf->total - max_audit_, std::max(kTakenAtLeast, most->second - second), most->second});
    SQLite::Statement erase(*db_, absl::StrCat("DELETE FROM ", shelf->table, " WHERE number IN (SELECT number FROM ",
                                               shelf->table, " WHERE token = ? ORDER BY number LIMIT ?)"));
    BindText(erase, 1, most->first);
    Bind(erase, 2, taken);
    erase.exec();
    shelf->total -= taken;
    most->second -= taken;
    if (most->second == 0) shelf->counts.erase(most);
  }
}

absl::StatusOr<std::vector<AuditRecord>> AccessStore::Audit(int64_t before, int limit, AuditKind kind) {
  constexpr absl::string_view kChanges =
      "SELECT number, time, time, token, name, peer, method, object, request_id, outcome, times, 0 FROM audit "
      "WHERE number < ?1";
  constexpr absl::string_view kRefusals =
      "SELECT number, time, last_time, token, name, peer, method, object, request_id, outcome, times, 1 FROM refusals "
      "WHERE number < ?1";
  const std::string select = kind == AuditKind::kAll ? absl::StrCat(kChanges, " UNION ALL ", kRefusals)
                                                     : std::string(kind == AuditKind::kChanges ? kChanges : kRefusals);
  base::MutexLock lock(&mutex_);
  SQLite::Database& db = *db_;
  LUTHIER_RETURN_IF_ERROR(written_.Check());
  return Guarded([&]() -> absl::StatusOr<std::vector<AuditRecord>> {
    std::vector<AuditRecord> entries;
    SQLite::Statement rows(db, absl::StrCat(select, " ORDER BY 1 DESC LIMIT ?2"));
    Bind(rows, 1, before > 0 ? before : INT64_MAX);
    Bind(rows, 2, int64_t{limit});
    while (rows.executeStep()) {
      AuditRecord e;
      e.number = Int64Column(rows, 0);
      e.time = TimeColumn(rows, 1);
      e.last_time = TimeColumn(rows, 2);
      e.token = StringColumn(rows, 3);
      e.name = StringColumn(rows, 4);
      e.peer = StringColumn(rows, 5);
      e.method = StringColumn(rows, 6);
      e.object = StringColumn(rows, 7);
      e.request_id = StringColumn(rows, 8);
      e.outcome = StringColumn(rows, 9);
      e.times = Int64Column(rows, 10);
      e.refused = Int64Column(rows, 11) != 0;
      entries.push_back(std::move(e));
    }
    return entries;
  });
}

}  // namespace luthier::access
