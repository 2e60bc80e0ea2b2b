#include "server/storage/written_file.h"

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "server/storage/connection.h"
#include "server/storage/sqlite_storage.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::storage {
namespace {

namespace fs = std::filesystem;
using luthier::testing::TemporaryDirectory;
using ::testing::HasSubstr;

std::unique_ptr<SqliteStorage> OpenAt(const std::string& directory, int checkpoint_pages = 1000) {
  SqliteOptions options;
  options.directory = directory;
  options.checkpoint_pages = checkpoint_pages;
  return SqliteStorage::Open(options).value();
}

struct Cut {
  std::string file;
  std::function<void(const std::string& path)> act;
};

TEST(WrittenFile, NoCommitIsAnsweredOnceAFileWasCutOrOverwrittenInPlace) {
  const std::vector<Cut> attacks = {
      {"luthier.db-wal", [](const std::string& path) { fs::resize_file(path, 0); }},
      {"luthier.db-wal", [](const std::string& path) { fs::resize_file(path, 32); }},
      {"luthier.db-wal",
       [](const std::string& path) {
         fs::copy_file(fs::path(path).parent_path() / "luthier.db", path, fs::copy_options::overwrite_existing);
       }},
      {"luthier.db", [](const std::string& path) { fs::resize_file(path, 0); }},
      {"luthier.db", [](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 4096); }},
  };
  for (size_t i = 0; i < attacks.size(); ++i) {
    for (const bool idle : {false, true}) {
      const TemporaryDirectory directory;
      const std::unique_ptr<SqliteStorage> storage = OpenAt(directory.path());
      for (uint64_t fence = 1; fence < 10; ++fence) ASSERT_TRUE(storage->Commit({SetFence{fence}}).ok());
      ASSERT_TRUE(storage->CheckFiles().ok()) << i;
      const std::string path = directory.path() + "/" + attacks[i].file;
      attacks[i].act(path);
      const absl::Status status = idle ? storage->CheckFiles() : storage->Commit({SetFence{10}});
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << i << " " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path + " was cut or overwritten")) << i;
      EXPECT_EQ(storage->Commit({SetFence{11}}), status) << i;
      EXPECT_EQ(storage->LastFence().status(), status) << i;
    }
  }
}

TEST(WrittenFile, CheckpointsAndRestartsOfTheWalAreNoCuts) {
  const TemporaryDirectory directory;
  for (const int pages : {1, 3, 7, 1000}) {
    const std::unique_ptr<SqliteStorage> storage = OpenAt(directory.path(), pages);
    const uint64_t first = storage->LastFence().value() + 1;
    for (uint64_t fence = first; fence < first + 60; ++fence) {
      ASSERT_TRUE(storage->Commit({SetFence{fence}}).ok()) << pages;
      ASSERT_TRUE(storage->CheckFiles().ok()) << pages;
    }
    EXPECT_TRUE(storage->Close().ok()) << pages;
  }
}

TEST(WrittenFile, AnotherThreadMayCheckWhileOneWrites) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenAt(directory.path(), 5);
  std::atomic<bool> done = false;
  absl::Status checked;
  int checks = 0;
  std::thread checker([&] {
    for (; !done && checked.ok(); ++checks) checked = storage->CheckFiles();
  });
  for (uint64_t fence = 1; fence <= 1000; ++fence) ASSERT_TRUE(storage->Commit({SetFence{fence}}).ok());
  done = true;
  checker.join();
  EXPECT_TRUE(checked.ok()) << checked;
  EXPECT_GT(checks, 0);
}

// A database of an older program is made anew at the start, which its file shows only after a checkpoint.
TEST(WrittenFile, AFileThatACheckpointMakesShorterIsNoCut) {
  const TemporaryDirectory directory;
  SQLite::Database db(directory.path() + "/old.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec("PRAGMA journal_mode = WAL");
  db.exec("CREATE TABLE t (a)");
  db.exec(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT "
      "randomblob(4000) FROM n");
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  db.exec("DELETE FROM t");
  db.exec("VACUUM");
  WrittenFile file(db.getHandle());
  ASSERT_TRUE(file.Check().ok());
  const int64_t before = file.bytes();
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_TRUE(file.Check().ok()) << file.Check();
  EXPECT_LT(file.bytes(), before);
  fs::resize_file(directory.path() + "/old.db", static_cast<uint64_t>(file.bytes() - 4096));
  EXPECT_EQ(file.Check().code(), absl::StatusCode::kDataLoss);
}

// Backup programs that ship the WAL checkpoint by themselves.
TEST(WrittenFile, ACheckpointOfAnotherConnectionIsNoCut) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = OpenAt(directory.path());
  const auto other = OpenConnection({.path = directory.path() + "/luthier.db", .vfs = "", .writer = true}).value();
  for (uint64_t fence = 1; fence < 40; ++fence) {
    ASSERT_TRUE(storage->Commit({SetFence{fence}}).ok());
    if (fence % 3 == 0) other->exec("PRAGMA wal_checkpoint(TRUNCATE)");
    ASSERT_TRUE(storage->CheckFiles().ok());
  }
}

}  // namespace
}  // namespace luthier::storage
