// Copies of a data directory, and whether its coordinator serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;

class BackupTest : public CliTest {
 protected:
  // A coordinator with its database in db/.
  void StartOnDisk() {
    server::ServerOptions options;
    options.data_dir = Path("db");
    options.listen = "unix:" + Path("db") + "/socket";
    options.keep_tokens = true;
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int Mode(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }
};

TEST_F(BackupTest, ABackupOfARunningCoordinatorBringsStudiesAndTokensBack) {
  StartOnDisk();
  Out({"study", "create", "-f", Write("s.yaml", kStudy), "--db", Path("db")});
  Out({"admin", "token", "create", "--name", "alice", "--role", "user", "--db", Path("db")});
  EXPECT_THAT(Out({"admin", "backup", "--db", Path("db"), "--out", Path("copy")}),
              HasSubstr("/copy: studies, tokens, projects and the audit"));
  EXPECT_EQ(Mode(Path("copy")), 0700);
  EXPECT_EQ(Mode(Path("copy") + "/access.db"), 0600);
  // What comes after it is not in it.
  Out({"study", "create", "-f", Path("s.yaml"), "--name", "later", "--db", Path("db")});
  server_.reset();

  Out({"admin", "restore", Path("copy"), "--db", Path("new")});
  EXPECT_EQ(Mode(Path("new") + "/luthier.db"), 0600);
  const json studies = Json({"study", "list", "--db", Path("new")});
  ASSERT_EQ(studies.size(), 1u);
  EXPECT_EQ(studies[0]["id"], "s");
  EXPECT_EQ(Json({"admin", "token", "list", "--db", Path("new")})[0]["name"], "alice");
}

TEST_F(BackupTest, NothingIsOverwritten) {
  EXPECT_EQ(Run({"admin", "backup", "--db", Path("db"), "--out", Path("copy")}).code, 5);
  StartOnDisk();
  const Result nowhere = Run({"admin", "backup", "--db", Path("db"), "--out", Path("no/copy")});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("can't be made: No such file or directory"));
  Out({"admin", "backup", "--db", Path("db"), "--out", Path("copy")});
  const Result again = Run({"admin", "backup", "--db", Path("db"), "--out", Path("copy")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there; name a new folder"));
  const Result over = Run({"admin", "restore", Path("copy"), "--db", Path("db")});
  EXPECT_EQ(over.code, 1);
  EXPECT_THAT(over.err, HasSubstr("exists; restore into a new directory"));
  const Result missing = Run({"admin", "restore", Path("none"), "--db", Path("new")});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("there is no backup in"));
}

TEST_F(BackupTest, HealthTellsServingFromSilent) {
  const Result silent = Run({"health", "--db", Path("db"), "--timeout", "1"});
  EXPECT_EQ(silent.code, 3);
  EXPECT_THAT(silent.err, HasSubstr("no coordinator answers at unix:" + Path("db") + "/socket"));
  StartOnDisk();
  EXPECT_EQ(Out({"health", "--db", Path("db")}), "serving\n");
  EXPECT_EQ(Out({"health", "--server", "unix:" + Path("db") + "/socket"}), "serving\n");
  EXPECT_THAT(Out({"health", "--db", Path("db"), "--verbose"}), HasSubstr("serving\nno certificate: "));
}

}  // namespace
}  // namespace luthier::cli
