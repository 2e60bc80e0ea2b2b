#include "server/storage/sqlite_storage.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/study/metrics.h"
#include "server/storage/backup.h"
#include "server/storage/connection.h"
#include "server/storage/damage.h"
#include "server/storage/inspect.h"
#include "server/storage/row_sums.h"
#include "tests/testing/storage_model.h"
#include "tests/testing/storage_records.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::storage {
namespace {

namespace fs = std::filesystem;
using testing::Completed;
using testing::EventAt;
using ::testing::HasSubstr;
using testing::Request;
using testing::Study;
using testing::TemporaryDirectory;
using testing::Trial;

absl::StatusOr<std::unique_ptr<SqliteStorage>> OpenStorage(const std::string& directory) {
  SqliteOptions options;
  options.directory = directory;
  return SqliteStorage::Open(options);
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The newest version, and one after it: a column more.
int NewestVersion() {
  return Migrations().back().version;
}
std::string SetVersion(int version) {
  return absl::StrCat(" PRAGMA user_version = ", version, ";");
}
std::vector<Migration> OneMore() {
  std::vector<Migration> migrations = Migrations();
  const int next = NewestVersion() + 1;
  migrations.push_back({next, "note.sql", "ALTER TABLE study ADD COLUMN note TEXT;" + SetVersion(next)});
  return migrations;
}

TEST(SqliteStorage, MakesAPrivateDirectoryWithOneFileAfterCloseAndALock) {
  const TemporaryDirectory parent;
  const std::string directory = parent.path() + "/new";
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory).value();
  ASSERT_TRUE(storage->Commit({SetFence{1}}).ok());
  EXPECT_EQ(fs::status(directory).permissions(), fs::perms::owner_all);
  EXPECT_THAT(FilesIn(directory),
              ::testing::ElementsAre("acknowledged", "lock", "luthier.db", "luthier.db-shm", "luthier.db-wal"));
  ASSERT_TRUE(storage->Close().ok());
  EXPECT_THAT(FilesIn(directory), ::testing::ElementsAre("acknowledged", "lock", "luthier.db"));
  EXPECT_EQ(storage->Commit({SetFence{2}}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(storage->LastFence().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SqliteStorage, MissingParentIsAnError) {
  const TemporaryDirectory parent;
  const absl::Status status = OpenStorage(parent.path() + "/a/b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("can't make the data directory"));
}

// The list in docs/design/storage.md.
TEST(SqliteStorage, ConnectionsHaveThePragmasTheDesignReliesOn) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(OpenStorage(directory.path()).ok());
  for (const bool writer : {true, false}) {
    ConnectionOptions options;
    options.path = DatabasePath(directory.path());
    options.writer = writer;
    const std::unique_ptr<SQLite::Database> db = OpenConnection(options).value();
    ASSERT_TRUE(SetPragmas(*db, options).ok());
    const std::vector<std::pair<std::string, std::string>> wanted = {
        {"journal_mode", "wal"},     {"synchronous", "2"},
        {"foreign_keys", "1"},       {"trusted_schema", "0"},
        {"cell_size_check", "1"},    {"mmap_size", "0"},
        {"wal_autocheckpoint", "0"}, {"journal_size_limit", "67108864"},
        {"temp_store", "2"},         {"query_only", writer ? "0" : "1"}};
    for (const auto& [pragma, value] : wanted) {
      EXPECT_EQ(db->execAndGet("PRAGMA " + pragma).getString(), value) << pragma << (writer ? " writer" : " reader");
    }
    EXPECT_EQ(db->execAndGet("PRAGMA application_id").getInt(), kApplicationId);
    EXPECT_EQ(db->execAndGet("PRAGMA user_version").getInt(), Migrations().back().version);
    // Defensive mode: the schema can't be edited by hand.
    EXPECT_NE(db->tryExec("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema"), SQLITE_OK);
    EXPECT_EQ(db->execAndGet("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                             " AND name NOT LIKE 'sqlite%' AND NOT strict")
                  .getInt(),
              0);
  }
}

// Summaries and pages must not scan: each statement of the readers finds its rows through an index.
TEST(SqliteStorage, StatementsUseTheirIndexes) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(OpenStorage(directory.path()).ok());
  SQLite::Database db(DatabasePath(directory.path()));
  const std::vector<std::pair<std::string, std::string>> plans = {
      {"SELECT count(*) FROM trial WHERE study = 1 AND state = 'FAILED'",
       "SEARCH trial USING COVERING INDEX trial_by_state (study=? AND state=?)"},
      {"SELECT number, value FROM trial WHERE study = 1 AND value IS NOT NULL ORDER BY value, number LIMIT 1",
       "SEARCH trial USING COVERING INDEX trial_by_value (study=? AND value>?)"},
      {"SELECT coalesce(sum(resource), 0) FROM trial INDEXED BY trial_by_resource WHERE study = 1 AND resource > 0",
       "SEARCH trial USING COVERING INDEX trial_by_resource (study=? AND resource>?)"},
      {"SELECT training, count(*) FROM trial INDEXED BY trial_by_training WHERE study = 1 AND training > 0"
       " GROUP BY training",
       "SEARCH trial USING COVERING INDEX trial_by_training (study=? AND training>?)"},
      {"SELECT max(value) FROM trial WHERE study = 1 AND value IS NOT NULL",
       "SEARCH trial USING COVERING INDEX trial_by_value (study=? AND value>?)"},
      {"SELECT detail FROM event INDEXED BY event_by_study WHERE study = 1 AND seq > 5 ORDER BY seq LIMIT 3",
       "SEARCH event USING INDEX event_by_study (study=? AND rowid>?)"},
      {"SELECT trial, actor, min(seq) FROM event INDEXED BY event_set_aside"
       " WHERE study = 1 AND type = 21 AND trial > 5 GROUP BY trial ORDER BY trial LIMIT 3",
       "SEARCH event USING INDEX event_set_aside (study=? AND trial>?)"},
      {"DELETE FROM request WHERE uptime_ns < 5",
       "SEARCH request USING COVERING INDEX request_by_uptime (uptime_ns<?)"},
  };
  for (const auto& [sql, plan] : plans) {
    SQLite::Statement explain(db, "EXPLAIN QUERY PLAN " + sql);
    ASSERT_TRUE(explain.executeStep());
    EXPECT_THAT(explain.getColumn(3).getString(), HasSubstr(plan)) << sql;
    EXPECT_FALSE(explain.executeStep()) << sql << ": also " << explain.getColumn(3).getString();
  }
}

TEST(SqliteStorage, DirectoryInUseNamesItsOwner) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  // The same process is refused like any other.
  const absl::Status status = OpenStorage(directory.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr(absl::StrCat("in use by process ", getpid())));
  EXPECT_THAT(MessageOf(status), HasSubstr(directory.path()));
  // A leftover lock file of a dead process does not matter, only the lock does.
  ASSERT_TRUE(storage->Close().ok());
  WriteFile(directory.path() + "/lock", "1\n");
  EXPECT_TRUE(OpenStorage(directory.path()).ok());
}

TEST(SqliteStorage, ForeignFilesAreLeftUntouched) {
  const TemporaryDirectory scratch;
  const std::string foreign = scratch.path() + "/foreign.db";
  {
    SQLite::Database db(foreign, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)");
  }
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"text", "# not a database\n"},     {"long text", std::string(100'000, 'x')}, {"short header", "SQLite format 3"},
      {"zeros", std::string(8192, '\0')}, {"another program's", ReadFile(foreign)},
  };
  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    const TemporaryDirectory directory;
    WriteFile(DatabasePath(directory.path()), bytes);
    const absl::Status status = OpenStorage(directory.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr("left untouched"));
    EXPECT_EQ(ReadFile(DatabasePath(directory.path())), bytes);
    EXPECT_THAT(FilesIn(directory.path()), ::testing::ElementsAre("lock", "luthier.db"));
  }
}

TEST(SqliteStorage, NewerVersionIsRefusedWithBothNamed) {
  const TemporaryDirectory directory;
  SqliteOptions newer;
  newer.directory = directory.path();
  newer.migrations = OneMore();
  ASSERT_TRUE(SqliteStorage::Open(newer).ok());
  const std::string before = ReadFile(DatabasePath(directory.path()));
  const absl::Status status = OpenStorage(directory.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr(absl::StrCat("schema version ", NewestVersion() + 1)));
  EXPECT_THAT(MessageOf(status), HasSubstr(absl::StrCat("up to ", NewestVersion())));
  EXPECT_EQ(ReadFile(DatabasePath(directory.path())), before);
}

TEST(SqliteStorage, DamagedFilesAreRefusedWithTheWayOut) {
  const TemporaryDirectory good;
  WriteBatch batch = {PutStudy{Study(1, "s")}};
  for (int64_t i = 1; i <= 300; ++i) batch.push_back(PutTrial{1, Trial(i)});
  ASSERT_TRUE(OpenStorage(good.path()).value()->Commit(batch).ok());
  const std::string bytes = ReadFile(DatabasePath(good.path()));
  ASSERT_GT(bytes.size(), 10u * 4096);
  std::string zeroed = bytes;
  zeroed.replace(4096, zeroed.size() - 4096, zeroed.size() - 4096, '\0');
  std::string bad_header = bytes;
  bad_header.replace(16, 2, "\x01\x02");  // The page size.
  for (const auto& [name, damaged] : std::vector<std::pair<std::string, std::string>>{
           {"truncated", bytes.substr(0, 3 * 4096)}, {"zeroed", zeroed}, {"header", bad_header}}) {
    SCOPED_TRACE(name);
    const TemporaryDirectory directory;
    WriteFile(DatabasePath(directory.path()), damaged);
    const absl::Status status = OpenStorage(directory.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(DatabasePath(directory.path())));
    EXPECT_THAT(MessageOf(status), HasSubstr("/backups"));
  }
}

TEST(SqliteStorage, ADamagedPageIsDataLossToItsStudyAndTheOthersGoOn) {
  const TemporaryDirectory directory;
  WriteBatch batch = {PutStudy{Study(1, "s")}};
  for (int64_t i = 1; i <= 300; ++i) batch.push_back(PutTrial{1, Trial(i)});
  ASSERT_TRUE(OpenStorage(directory.path()).value()->Commit(batch).ok());
  SqliteOptions options;
  options.directory = directory.path();
  options.check_behind = true;
  {
    const std::unique_ptr<SqliteStorage> whole = SqliteStorage::Open(options).value();
    whole->BeginPageCheck();
    EXPECT_EQ(whole->ListTrials(1, {}, 0, 1000)->size(), 300u);
  }
  std::string damaged = ReadFile(DatabasePath(directory.path()));
  int page = 0;
  {
    SQLite::Database db(DatabasePath(directory.path()));
    page = db.execAndGet("SELECT min(pageno) FROM dbstat WHERE name = 'trial' AND pagetype = 'leaf'").getInt();
  }
  damaged.replace(static_cast<size_t>(page - 1) * 4096, 4096, 4096, '\xff');
  WriteFile(DatabasePath(directory.path()), damaged);
  EXPECT_EQ(OpenStorage(directory.path()).status().code(), absl::StatusCode::kDataLoss);
  const std::unique_ptr<SqliteStorage> storage = SqliteStorage::Open(options).value();
  storage->BeginPageCheck();
  const absl::Status status = storage->ListTrials(1, {}, 0, 1000).status();
  EXPECT_TRUE(IsDamage(status)) << status;
  EXPECT_EQ(DamagedStudy(status), 1);
  EXPECT_THAT(MessageOf(status), HasSubstr("study \"s\""));
  EXPECT_THAT(MessageOf(status), HasSubstr("luthier admin doctor"));
  ASSERT_TRUE(storage->Commit({PutStudy{Study(2, "t")}, PutTrial{2, Trial(1)}, SetFence{1}}).ok());
  EXPECT_EQ(storage->ListTrials(2, {}, 0, 1000)->size(), 1u);
}

// Each change of one row by hand, through a connection that keeps checksums of pages.
TEST(SqliteStorage, AChangedRowIsDataLossToWhoReadsIt) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"UPDATE trial SET state = 'FAILED' WHERE number = 2", "trial 2"},
      {"UPDATE trial SET number = 4 WHERE number = 3", "trial"},
      {"UPDATE trial SET body = CAST(body || x'00' AS BLOB) WHERE number = 2", "trial 2"},
      {"UPDATE trial SET finish_seq = finish_seq + 1 WHERE number = 1", "trial 1"},
      {"DELETE FROM trial WHERE number = 3", "trial 3"},
      {"UPDATE event SET trial = trial + 1", "event 1"},
      {"UPDATE measurement SET step = step + 1", "step"},
      {"UPDATE study SET bytes = bytes + 1", "its row"},
      {"UPDATE study SET id = 'other'", "its row"},
      {"UPDATE counter SET value = value + 1", "counter"},
      {"UPDATE request SET digest = x'00'", ""},
  };
  for (const auto& [sql, what] : changes) {
    SCOPED_TRACE(sql);
    const TemporaryDirectory directory;
    WriteBatch batch = {PutStudy{Study(1, "s")}, AppendEvent{EventAt(1, 1)}, PutRequest{Request("r1", 1)}};
    for (int64_t i = 1; i <= 3; ++i) batch.push_back(PutTrial{1, Trial(i)});
    batch.push_back(PutMeasurement{testing::Point(1, 1, 1, 5, 0.5)});
    ASSERT_TRUE(OpenStorage(directory.path()).value()->Commit(batch).ok());
    {
      const ConnectionOptions options = {.path = DatabasePath(directory.path()), .vfs = "", .writer = true};
      OpenConnection(options).value()->exec("PRAGMA foreign_keys = OFF; " + sql);
    }
    const absl::StatusOr<std::unique_ptr<SqliteStorage>> storage = OpenStorage(directory.path());
    std::vector<absl::Status> statuses = {storage.status()};
    if (storage.ok()) {
      Storage& s = **storage;
      const std::vector<StudyRecord> studies = s.ListStudies("", 10).value();
      for (const StudyRecord& record : studies) statuses.push_back(record.damage);
      statuses.push_back(s.ListTrials(1, {}, 0, 10).status());
      statuses.push_back(s.ListEvents(1, 0, 10).status());
      statuses.push_back(s.ListMeasurements(1, 1, 1).status());
      if (what.empty()) {
        EXPECT_TRUE(std::holds_alternative<DamagedReply>((*s.FindRequest("r1"))->reply));
        continue;
      }
    }
    int damaged = 0;
    for (const absl::Status& status : statuses) {
      if (status.ok()) continue;
      ++damaged;
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(MessageOf(status), HasSubstr(what));
    }
    EXPECT_EQ(damaged, 1);
    const std::vector<Finding> findings = Diagnose(directory.path())->findings;
    EXPECT_FALSE(findings.empty());
    const TemporaryDirectory elsewhere;
    EXPECT_EQ(Restore(DatabasePath(directory.path()), elsewhere.path()).code(), absl::StatusCode::kDataLoss);
  }
}

TEST(SqliteStorage, AMissingWalIsDataLoss) {
  const TemporaryDirectory directory;
  const TemporaryDirectory copy;
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  ASSERT_TRUE(storage->Commit({PutStudy{Study(1, "s")}, AppendEvent{EventAt(7, 1)}}).ok());
  for (const char* name : {"luthier.db", "acknowledged"}) {
    fs::copy_file(directory.path() + "/" + name, copy.path() + "/" + name);
  }
  const absl::Status status = OpenStorage(copy.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("event 7 was acknowledged"));
  fs::remove(copy.path() + "/acknowledged");
  EXPECT_TRUE(OpenStorage(copy.path()).ok());
}

TEST(SqliteStorage, AMissingWalIsDataLossEvenWithoutTheAcknowledgedFile) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  ASSERT_TRUE(storage->Commit({PutStudy{Study(1, "s")}, AppendEvent{EventAt(7, 1)}}).ok());
  for (const char* known : {"nothing", "cut", "damaged"}) {
    const TemporaryDirectory copy;
    for (const char* name : {"luthier.db", "luthier.db-shm"}) {
      fs::copy_file(directory.path() + "/" + name, copy.path() + "/" + name);
    }
    if (known != std::string("nothing")) {
      std::ofstream(copy.path() + "/acknowledged") << (known == std::string("cut") ? "" : std::string(38, '0'));
    }
    const absl::Status status = OpenStorage(copy.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << known;
    EXPECT_THAT(MessageOf(status), HasSubstr("luthier.db-wal was removed")) << known;
    // Looking changes nothing.
    EXPECT_FALSE(Diagnose(copy.path()).value().findings.empty()) << known;
    EXPECT_EQ(OpenStorage(copy.path()).status(), status) << known;
    fs::remove(copy.path() + "/luthier.db-shm");
    EXPECT_TRUE(OpenStorage(copy.path()).ok()) << known;
  }
}

TEST(SqliteStorage, ClosingDoesNotWaitForTheCheckOfPages) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(OpenStorage(directory.path()).value()->Commit({PutStudy{Study(1, "s")}}).ok());
  SqliteOptions options;
  options.directory = directory.path();
  options.check_behind = true;
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<SqliteStorage> storage = SqliteStorage::Open(options).value();
    storage->BeginPageCheck();
    EXPECT_TRUE(storage->Close().ok());
  }
  EXPECT_EQ(OpenStorage(directory.path()).value()->ListStudies("", 10)->size(), 1u);
}

TEST(SqliteStorage, ReadOnlySeesARunningServersCommitsAndWritesNothing) {
  const TemporaryDirectory directory;
  SqliteOptions look;
  look.directory = directory.path();
  look.read_only = true;
  EXPECT_EQ(SqliteStorage::Open(look).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(FilesIn(directory.path()).empty());
  const std::unique_ptr<SqliteStorage> server = OpenStorage(directory.path()).value();
  const std::unique_ptr<SqliteStorage> reader = SqliteStorage::Open(look).value();
  ASSERT_TRUE(server->Commit({PutStudy{Study(1, "s")}}).ok());
  EXPECT_TRUE(reader->GetStudy("s").ok());
  EXPECT_EQ(reader->Commit({SetFence{1}}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SqliteStorage, SurvivesAProcessThatDiesWithoutClosing) {
  const TemporaryDirectory directory;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const absl::StatusOr<std::unique_ptr<SqliteStorage>> storage = OpenStorage(directory.path());
    if (!storage.ok()) _exit(1);
    for (uint64_t seq = 1; seq <= 20; ++seq) {
      if (!(*storage)->Commit({AppendEvent{EventAt(seq, 1)}}).ok()) _exit(2);
    }
    _exit(0);  // As after SIGKILL: no destructor runs.
  }
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  ASSERT_EQ(result, 0);
  EXPECT_EQ(OpenStorage(directory.path()).value()->LastSeq().value(), 20u);
}

TEST(SqliteStorage, WalIsReusedAndAStuckReaderOnlyDelaysThat) {
  constexpr int kPages = 10;
  constexpr uint64_t kBytesPerPage = 4096 + 24;  // With the frame's header.
  const TemporaryDirectory directory;
  SqliteOptions options;
  options.directory = directory.path();
  options.checkpoint_pages = kPages;
  const std::unique_ptr<SqliteStorage> storage = SqliteStorage::Open(options).value();
  uint64_t seq = 0;
  const auto commit = [&](int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(storage->Commit({AppendEvent{EventAt(++seq, 1)}}).ok());
  };
  const auto wal_bytes = [&] { return fs::file_size(DatabasePath(directory.path()) + "-wal"); };
  commit(100);
  EXPECT_LT(wal_bytes(), 2 * kPages * kBytesPerPage);
  SQLite::Database reader(DatabasePath(directory.path()));
  reader.exec("BEGIN");
  EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM event").getInt(), 100);
  commit(45);
  const uint64_t grown = wal_bytes();
  EXPECT_GT(grown, 8 * kPages * kBytesPerPage);
  EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM event").getInt(), 100);
  reader.exec("COMMIT");
  commit(200);
  EXPECT_LE(wal_bytes(), grown + 2 * kPages * kBytesPerPage);
}

TEST(SqliteStorage, SpecThatTheApiCouldNotExpressIsRefused) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  StudyRecord invalid = Study(1, "s");
  invalid.spec.metric.name = "no name!";
  EXPECT_EQ(storage->Commit({PutStudy{invalid}}).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(storage->Commit({PutStudy{Study(1, "s")}}).ok());
}

TEST(SqliteMigrations, OldDatabaseIsBackedUpAndBroughtUpToDate) {
  const TemporaryDirectory directory;
  {
    const std::unique_ptr<SqliteStorage> old = OpenStorage(directory.path()).value();
    ASSERT_TRUE(old->Commit({PutStudy{Study(1, "s")}, PutTrial{1, Trial(1)}, AppendEvent{EventAt(7, 1)}}).ok());
  }
  SqliteOptions newer;
  newer.directory = directory.path();
  newer.read_only = true;
  newer.migrations = OneMore();
  EXPECT_THAT(MessageOf(SqliteStorage::Open(newer).status()), HasSubstr("start the server once"));
  newer.read_only = false;
  const std::unique_ptr<SqliteStorage> storage = SqliteStorage::Open(newer).value();
  EXPECT_TRUE(storage->GetTrial(1, 1).ok());
  const std::string name = absl::StrCat("luthier-v", NewestVersion(), "-seq7.db");
  EXPECT_THAT(FilesIn(BackupsPath(directory.path())), ::testing::ElementsAre(name));
  SQLite::Database backup(BackupsPath(directory.path()) + "/" + name);
  EXPECT_EQ(backup.execAndGet("PRAGMA user_version").getInt(), NewestVersion());
  EXPECT_EQ(backup.execAndGet("SELECT count(*) FROM trial").getInt(), 1);
}

TEST(SqliteMigrations, FailedMigrationLeavesTheOldVersion) {
  const int next = NewestVersion() + 1;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"syntax", "ALTER TABLE study ADD COLUMN note TEXT; NONSENSE;" + SetVersion(next)},
      {"version not set", "ALTER TABLE study ADD COLUMN note TEXT;"},
      {"orphans", "DELETE FROM study;" + SetVersion(next)},
  };
  for (const auto& [name, sql] : cases) {
    SCOPED_TRACE(name);
    const TemporaryDirectory directory;
    ASSERT_TRUE(OpenStorage(directory.path()).value()->Commit({PutStudy{Study(1, "s")}, PutTrial{1, Trial(1)}}).ok());
    SqliteOptions newer;
    newer.directory = directory.path();
    newer.migrations = Migrations();
    newer.migrations.push_back({next, "bad.sql", sql});
    const absl::Status status = SqliteStorage::Open(newer).status();
    EXPECT_THAT(MessageOf(status), HasSubstr("bad.sql"));
    const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
    EXPECT_EQ(storage->GetStudy("s").value(), Study(1, "s"));
  }
}

testing::StorageModel Fill(Storage& storage) {
  testing::StorageModel model;
  base::RandomStream random(3, "storage fixture");
  for (int i = 0; i < 60; ++i) {
    const WriteBatch batch = model.RandomBatch(random);
    const bool good = model.Commit(batch);
    EXPECT_EQ(storage.Commit(batch).ok(), good);
  }
  return model;
}

// Everything that can be read, as text.
std::string Dump(Storage& storage) {
  constexpr int kAll = 1'000'000;
  const StudyKey last_key = storage.LastStudyKey().value();
  std::string out = absl::StrCat("seq ", storage.LastSeq().value(), " fence ", storage.LastFence().value(), " key ",
                                 last_key, "\n", testing::Text(storage.ListStudies("", kAll).value()));
  for (StudyKey key = 1; key <= last_key; ++key) {
    const std::vector<TrialRecord> trials = storage.ListTrials(key, {}, 0, kAll).value();
    out += testing::Text(trials);
    for (const TrialRecord& record : trials) {
      for (int32_t attempt = 1; attempt <= 2; ++attempt) {
        out += testing::Text(storage.ListMeasurements(key, record.trial.number, attempt).value());
      }
    }
    out += testing::Text(storage.ListEvents(key, 0, kAll).value());
    out += testing::Text(storage.ListSetAside(key, 0, kAll).value());
    if (const auto former = storage.ListFormerSpecs(key).value(); !former.empty()) out += testing::Text(former);
  }
  if (const auto hidden = storage.ListDeleted(0, kAll).value(); !hidden.empty()) out += testing::Text(hidden);
  for (int i = 0; i < 10; ++i) out += testing::Text(storage.FindRequest(absl::StrCat("r", i)).value()) + "\n";
  return out;
}

constexpr int kVersionOfBytes = 11;
constexpr int kVersionOfUptime = 12;

// tests/data/storage_v<n> was written by schema version n and must open and read the same for ever. Running this test
// with LUTHIER_WRITE_STORAGE_FIXTURE=<directory> writes such a pair of files.
TEST(SqliteMigrations, DatabasesOfAllVersionsOpen) {
  if (const char* target = std::getenv("LUTHIER_WRITE_STORAGE_FIXTURE"); target != nullptr) {
    const std::unique_ptr<SqliteStorage> storage = OpenStorage(target).value();
    const uint64_t seq = Fill(*storage).seq();
    WriteBatch more;
    for (int64_t trial = 1; trial <= 3; ++trial) {
      Event event = EventAt(seq + static_cast<uint64_t>(trial), 1);
      event.type = EventType::kGradientSetAside;
      event.trial = trial;
      event.actor = absl::StrCat("worker-", trial % 2);
      more.push_back(AppendEvent{event});
    }
    StudyRecord several = Study(storage->LastStudyKey().value() + 1, "several");
    study::SetMetrics({{.name = "ms", .objective = false, .at_most = 20}, several.spec.metric}, &several.spec);
    more.push_back(PutStudy{several});
    Event point = EventAt(seq + 4, several.key);
    point.type = EventType::kMeasurement;
    point.values = {21.0, 0.5};
    more.push_back(AppendEvent{point});
    for (const int64_t number : {1, 2}) {
      TrialRecord trial = Completed(number, 0.5);
      trial.trial.final_measurement->metrics["ms"] = 22.0 - static_cast<double>(number);
      more.push_back(PutTrial{several.key, trial});
    }
    StudyRecord hidden = Study(several.key + 1, "hidden");
    hidden.owner = "vision/alice";
    more.push_back(PutStudy{hidden});
    more.push_back(PutTrial{hidden.key, Completed(1, 0.5)});
    more.push_back(HideStudy{hidden.key, {absl::FromUnixSeconds(1'800'000'000), absl::Hours(3)}});
    more.push_back(ForgetRequestsBefore{absl::InfiniteDuration()});
    for (int i = 0; i < 3; ++i) more.push_back(PutRequest{Request(absl::StrCat("r", i), i)});  // One of each type.
    EXPECT_TRUE(storage->Commit(more).ok());
    WriteFile(std::string(target) + "/contents.txt", Dump(*storage));
    return;
  }
  const char* root = std::getenv("LUTHIER_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run through ctest, or set LUTHIER_SOURCE_DIR to the root of the sources";
  for (int version = 1; version <= NewestVersion(); ++version) {
    SCOPED_TRACE(version);
    const std::string fixture = absl::StrCat(root, "/tests/data/storage_v", version);
    const TemporaryDirectory directory;
    fs::copy_file(fixture + "/luthier.db", DatabasePath(directory.path()));
    std::string dump = Dump(*OpenStorage(directory.path()).value());
    if (version < kVersionOfBytes) {  // The migration counted what older programs had not.
      const std::regex bytes(" bytes=[1-9][0-9]*");
      EXPECT_TRUE(std::regex_search(dump, bytes));
      dump = std::regex_replace(dump, bytes, "");
    }
    std::string contents = ReadFile(fixture + "/contents.txt");
    if (version < kVersionOfUptime) {  // Requests begin their time anew; studies get what the wall clock tells.
      EXPECT_TRUE(std::regex_search(dump, std::regex(" uptime=0 ")));
      dump = std::regex_replace(dump, std::regex(" (uptime|create_uptime)=-?[0-9]+"), "");
      contents = std::regex_replace(contents, std::regex(" time=1970-[^ ]+ ?\n"), " \n");
      contents = std::regex_replace(contents, std::regex(" time=1970-[^ ]+ ?$"), " ");
    }
    EXPECT_EQ(dump, contents);
  }
}

TEST(SqliteMigrations, OwnersAreWhoMadeStudiesIfThatIsKnown) {
  const TemporaryDirectory directory;
  const std::map<std::string, std::string> owners = {{"alice@ipv4:10.0.0.7", "alice"},
                                                     {"vision/bob@ipv6:%5B::1%5D", "vision/bob"},
                                                     {"unix:", ""},
                                                     {"unix:@abstract", ""},
                                                     {"ipv4:127.0.0.1", ""},
                                                     {"@x", ""},
                                                     {"", ""}};
  {
    const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
    WriteBatch batch;
    StudyKey key = 0;
    for (const auto& [actor, owner] : owners) {
      ++key;
      StudyRecord study = Study(key, absl::StrCat("s", key));
      study.create_seq = static_cast<uint64_t>(key);
      Event event = EventAt(study.create_seq, key);
      event.type = EventType::kStudyCreated;
      event.actor = actor;
      batch.push_back(PutStudy{study});
      batch.push_back(AppendEvent{event});
    }
    ASSERT_TRUE(storage->Commit(batch).ok());
  }
  // As version 15 left it.
  {
    const std::unique_ptr<SQLite::Database> db =
        OpenConnection({.path = DatabasePath(directory.path()), .vfs = "", .writer = true}).value();
    db->exec("DROP INDEX study_hidden");
    for (const char* column : {"owner", "hidden_id", "hidden_time_ns", "hidden_uptime_ns"}) {
      db->exec(absl::StrCat("ALTER TABLE study DROP COLUMN ", column));
    }
    db->exec("UPDATE study SET sum = " LUTHIER_STUDY_SUM_UNTIL_15);
    db->exec("PRAGMA user_version = 15");
  }
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  StudyKey key = 0;
  for (const auto& [actor, owner] : owners) {
    const absl::StatusOr<StudyRecord> study = storage->GetStudy(absl::StrCat("s", ++key));
    ASSERT_TRUE(study.ok()) << study.status();
    EXPECT_EQ(study->owner, owner) << actor;
  }
}

TEST(SqliteDeletion, ADeletedStudyIsGoneAtOnceAndItsRowsBitByBit) {
  const TemporaryDirectory directory;
  std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  const testing::StorageModel model = Fill(*storage);
  // Random events of the fixture may name keys that no study has had yet.
  const StudyRecord study = Study(storage->LastStudyKey().value() + 100, "large");
  WriteBatch more = {PutStudy{study}, AppendEvent{EventAt(model.seq() + 1, study.key)}};
  for (int64_t number = 1; number <= 300; ++number) {
    more.push_back(PutTrial{study.key, Trial(number)});
    for (int64_t step = 1; step <= 3; ++step) {
      MeasurementRecord point;
      point.study = study.key;
      point.trial = number;
      point.attempt = 1;
      point.measurement.step = 1000 + step;
      more.push_back(PutMeasurement{point});
    }
  }
  ASSERT_TRUE(storage->Commit(more).ok());
  const auto rows = [&] {
    SQLite::Database db(DatabasePath(directory.path()), SQLite::OPEN_READONLY);
    int64_t count = 0;
    for (const char* table : {"study WHERE key", "trial WHERE study", "measurement WHERE study"}) {
      count += db.execAndGet(absl::StrCat("SELECT count(*) FROM ", table, " = ", study.key)).getInt64();
    }
    return count;
  };
  int64_t before = rows();
  ASSERT_GT(before, 1200);
  ASSERT_TRUE(storage->Commit({DeleteStudy{study.key}}).ok());
  int slices = 0;
  for (bool left = true; left; ++slices) {
    EXPECT_EQ(storage->GetStudy(study.id).status().code(), absl::StatusCode::kNotFound);
    const std::vector<StudyRecord> others = storage->ListStudies("", 100).value();
    for (const StudyRecord& other : others) EXPECT_NE(other.key, study.key);
    EXPECT_EQ(storage->GetTrial(study.key, 7).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(storage->ListTrials(study.key, {}, 0, 10).value(), ::testing::IsEmpty());
    EXPECT_THAT(storage->SketchTrials(study, {}, 0, 10).value(), ::testing::IsEmpty());
    EXPECT_THAT(storage->ListMeasurements(study.key, 7, 1).value(), ::testing::IsEmpty());
    EXPECT_EQ(storage->Summarize(study).value().by_state, Storage::Summary().by_state);
    EXPECT_FALSE(storage->Commit({PutTrial{study.key, Trial(1)}}).ok());
    // Another takes the name, and the program is started anew.
    if (slices == 2) {
      StudyRecord next = study;
      next.key = storage->LastStudyKey().value() + 1;
      ASSERT_TRUE(storage->Commit({PutStudy{next}}).ok());
      ASSERT_TRUE(storage->Commit({DeleteStudy{next.key}}).ok());
      storage.reset();
      storage = OpenStorage(directory.path()).value();
    }
    left = storage->EraseSome(100).value();
    const int64_t now = rows();
    EXPECT_LE(before - now, 101);
    before = now;
  }
  EXPECT_GT(slices, 12);
  EXPECT_EQ(rows(), 0);
  EXPECT_FALSE(storage->EraseSome(100).value());
  EXPECT_THAT(storage->ListEvents(study.key, 0, 10).value(), ::testing::SizeIs(1));
}

TEST(SqliteBackup, CopyIsCompleteAndRestoresWithARaisedFence) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  const testing::StorageModel model = Fill(*storage);
  const std::string path = storage->Backup().value();
  EXPECT_EQ(path, absl::StrCat(directory.path(), "/backups/luthier-v", NewestVersion(), "-seq", model.seq(), ".db"));
  EXPECT_EQ(storage->Backup().value(), path);  // Nothing changed meanwhile: the same name.
  EXPECT_THAT(FilesIn(BackupsPath(directory.path())), ::testing::SizeIs(1));
  ASSERT_TRUE(storage->Commit({AppendEvent{EventAt(model.seq() + 1, 1)}}).ok());

  const TemporaryDirectory elsewhere;
  ASSERT_TRUE(Restore(path, elsewhere.path()).ok());
  const std::unique_ptr<SqliteStorage> restored = OpenStorage(elsewhere.path()).value();
  EXPECT_EQ(restored->LastSeq().value(), model.seq());
  EXPECT_EQ(restored->LastFence().value(), model.fence() + (uint64_t{1} << 32));
  EXPECT_EQ(restored->ListStudies("", 100).value().size() + restored->ListDeleted(0, 100).value().size(),
            model.studies().size());
}

TEST(SqliteBackup, RestoreOverwritesNothingAndChecksWhatItReads) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenStorage(directory.path()).value();
  Fill(*storage);
  const std::string path = storage->Backup().value();
  EXPECT_THAT(MessageOf(Restore(path, directory.path())), HasSubstr("in use"));
  ASSERT_TRUE(storage->Close().ok());
  EXPECT_THAT(MessageOf(Restore(path, directory.path())), HasSubstr("exists"));

  const TemporaryDirectory elsewhere;
  EXPECT_FALSE(Restore(path + ".no", elsewhere.path()).ok());
  std::string damaged = ReadFile(path);
  damaged.replace(damaged.size() / 2, 4096, 4096, '\xff');
  WriteFile(path, damaged);
  EXPECT_EQ(Restore(path, elsewhere.path()).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(FilesIn(elsewhere.path()), ::testing::ElementsAre("lock"));
}

TEST(DataDirectory, LocalFileSystemsPass) {
  EXPECT_TRUE(CheckLocalFileSystem("/tmp").ok());
  EXPECT_FALSE(CheckLocalFileSystem("/no/such/directory").ok());
}

}  // namespace
}  // namespace luthier::storage
