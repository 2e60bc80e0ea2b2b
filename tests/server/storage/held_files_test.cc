#include "server/storage/held_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "server/storage/sqlite_storage.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::storage {
namespace {

namespace fs = std::filesystem;
using luthier::testing::TemporaryDirectory;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

std::unique_ptr<SqliteStorage> Open(const std::string& directory) {
  SqliteOptions options;
  options.directory = directory;
  return SqliteStorage::Open(options).value();
}

struct Attack {
  std::string name;
  std::function<void(const std::string& directory)> act;
  std::string said;
};

const std::vector<Attack>& Attacks() {
  static const std::vector<Attack> attacks = {
      {"directory moved", [](const std::string& d) { fs::rename(d, d + "-elsewhere"); }, "was moved or removed"},
      {"directory removed", [](const std::string& d) { fs::remove_all(d); }, "was moved or removed"},
      {"directory replaced",
       [](const std::string& d) {
         fs::rename(d, d + "-elsewhere");
         fs::copy(d + "-elsewhere", d, fs::copy_options::recursive);
       },
       "is another one now"},
      {"database removed", [](const std::string& d) { fs::remove(d + "/luthier.db"); }, "luthier.db was moved"},
      {"WAL removed", [](const std::string& d) { fs::remove(d + "/luthier.db-wal"); }, "luthier.db-wal was moved"},
      {"shared memory removed", [](const std::string& d) { fs::remove(d + "/luthier.db-shm"); }, "-shm was moved"},
      {"acknowledged removed", [](const std::string& d) { fs::remove(d + "/acknowledged"); }, "acknowledged was moved"},
      {"lock replaced",
       [](const std::string& d) {
         fs::copy_file(d + "/lock", d + "/copy");
         fs::rename(d + "/copy", d + "/lock");
       },
       "lock is another one now"},
  };
  return attacks;
}

TEST(HeldFiles, ACommitIsNotAnsweredOnceItsPathLeadsElsewhere) {
  for (const Attack& attack : Attacks()) {
    const TemporaryDirectory parent;
    const std::string directory = parent.path() + "/data";
    const std::unique_ptr<SqliteStorage> storage = Open(directory);
    ASSERT_TRUE(storage->Commit({SetFence{1}}).ok()) << attack.name;
    attack.act(directory);
    const absl::Status status = storage->Commit({SetFence{2}});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << attack.name << ": " << status;
    EXPECT_THAT(Message(status), HasSubstr(attack.said)) << attack.name;
    EXPECT_THAT(Message(status), HasSubstr("put it back")) << attack.name;
    EXPECT_EQ(storage->Commit({SetFence{3}}), status) << attack.name;
    EXPECT_EQ(storage->LastFence().status(), status) << attack.name << ": reads go on";
  }
}

TEST(HeldFiles, ReadersNoticeAMovedDirectoryToo) {
  for (const Attack& attack : Attacks()) {
    const TemporaryDirectory parent;
    const std::string directory = parent.path() + "/data";
    const std::unique_ptr<SqliteStorage> storage = Open(directory);
    ASSERT_TRUE(storage->CheckHeld().ok()) << attack.name;
    attack.act(directory);
    EXPECT_THAT(Message(storage->CheckHeld()), HasSubstr(attack.said)) << attack.name;
  }
}

TEST(HeldFiles, TheAcknowledgedFileIsCheckedToo) {
  for (const uintmax_t size : {0, 20, 37}) {
    const TemporaryDirectory directory;
    const std::unique_ptr<SqliteStorage> storage = Open(directory.path());
    ASSERT_TRUE(storage->Commit({SetFence{1}}).ok());
    fs::resize_file(directory.path() + "/acknowledged", size);
    EXPECT_EQ(storage->CheckHeld().code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(Message(storage->Commit({SetFence{2}})), HasSubstr("acknowledged was cut or overwritten")) << size;
  }
}

TEST(HeldFiles, CommitsCheckpointsAndBackupsLeaveTheFilesInPlace) {
  const TemporaryDirectory directory;
  SqliteOptions options;
  options.directory = directory.path();
  options.checkpoint_pages = 1;
  const std::unique_ptr<SqliteStorage> storage = SqliteStorage::Open(options).value();
  for (uint64_t i = 1; i <= 50; ++i) ASSERT_TRUE(storage->Commit({SetFence{i}}).ok()) << i;
  ASSERT_TRUE(storage->Backup().ok());
  EXPECT_TRUE(storage->CheckHeld().ok());
}

TEST(HeldFiles, ADirectoryReachedThroughALinkIsTheOneThatTheLinkLeadsTo) {
  const TemporaryDirectory parent;
  fs::create_directory(parent.path() + "/private");
  fs::create_directory(parent.path() + "/other");
  fs::create_directory_symlink("private", parent.path() + "/data");
  const std::unique_ptr<SqliteStorage> storage = Open(parent.path() + "/data");
  ASSERT_TRUE(storage->Commit({SetFence{1}}).ok());
  fs::remove(parent.path() + "/data");
  fs::create_directory_symlink("other", parent.path() + "/data");
  EXPECT_THAT(Message(storage->Commit({SetFence{2}})), HasSubstr("is another one now"));
}

TEST(HeldFiles, TheProcessEndsWith74AndSaysWhyWhateverTheLogsLevel) {
  base::SetLogLevel(base::LogLevel::kOff);
  EXPECT_EXIT(EndForStorage(absl::DataLossError("the disk is gone")), ::testing::ExitedWithCode(74),
              ": the disk is gone\n");
}

TEST(HeldFiles, AFileThatIsCutUnderItsMappingEndsTheProcessWith74) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/mapped";
  std::ofstream(path) << std::string(4096, 'x');
  EXPECT_EXIT(
      {
        EndAtLostPages();
        const int fd = open(path.c_str(), O_RDWR);
        auto* const mapped = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
        fs::resize_file(path, 0);
        _exit(mapped[0]);
      },
      ::testing::ExitedWithCode(74), "start again");
}

// Root may write whatever a file's mode says, so a process of another user looks.
absl::Status LookAsSomebody(const std::string& directory, uid_t user) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(user) != 0 || setuid(user) != 0)) _exit(1);
    const std::string text(CheckWritable(directory).message());
    [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = read(ends[0], buffer, sizeof(buffer))) > 0) text.append(buffer, static_cast<size_t>(size));
  close(ends[0]);
  int result = -1;
  EXPECT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  return text.empty() ? absl::OkStatus() : absl::FailedPreconditionError(text);
}

TEST(CheckWritable, NamesTheFileItsModeItsOwnerAndTheMend) {
  constexpr uid_t kNobody = 65534;
  const uid_t user = geteuid() == 0 ? kNobody : geteuid();
  const TemporaryDirectory parent;
  const std::string directory = parent.path() + "/data";
  fs::create_directory(directory);
  fs::permissions(parent.path(), fs::perms::all);
  ASSERT_TRUE(geteuid() != 0 || chown(directory.c_str(), user, user) == 0);
  EXPECT_TRUE(LookAsSomebody(directory, user).ok());
  EXPECT_TRUE(LookAsSomebody(directory + "/missing", user).ok());
  for (const char* name : {"lock", "luthier.db", "luthier.db-wal", "luthier.db-shm", "access.db", "access.db-wal"}) {
    const std::string path = parent.Write(std::string("data/") + name, "x");
    ASSERT_TRUE(geteuid() != 0 || chown(path.c_str(), user, user) == 0);
    ASSERT_EQ(chmod(path.c_str(), 0444), 0);
    const std::string said = Message(LookAsSomebody(directory, user));
    EXPECT_THAT(said, HasSubstr(path + " can't be written by ")) << name;
    EXPECT_THAT(said, HasSubstr("its mode is 0444")) << name;
    EXPECT_THAT(said, HasSubstr("run: chmod u+rw " + path)) << name;
    fs::remove(path);
  }
  ASSERT_EQ(chmod(directory.c_str(), 0555), 0);
  EXPECT_THAT(Message(LookAsSomebody(directory, user)), HasSubstr("run: chmod u+rwx " + directory));
  ASSERT_EQ(chmod(directory.c_str(), 0755), 0);
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(directory.c_str(), 0, 0), 0);
  EXPECT_THAT(Message(LookAsSomebody(directory, user)),
              HasSubstr("its owner root); start as root, or let root run: chown "));
}

TEST(CheckNothingLost, ANewDatabaseDoesNotHideThatTheOldOneIsGone) {
  for (const char* left : {"luthier.db-wal", "backups/luthier-v11-seq9.db", "access.db"}) {
    const TemporaryDirectory directory;
    SqliteOptions options;
    options.directory = directory.path();
    const std::string path = directory.Write(left, "x");
    const absl::Status status = SqliteStorage::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << left;
    EXPECT_THAT(Message(status), HasSubstr("luthier.db is missing, but ")) << left;
    EXPECT_THAT(Message(status), HasSubstr("restore a backup")) << left;
    EXPECT_FALSE(fs::exists(directory.path() + "/luthier.db")) << left;
    fs::remove(path);
    EXPECT_TRUE(SqliteStorage::Open(options).ok()) << left;
  }
}

}  // namespace
}  // namespace luthier::storage
