#include "worker/run_as.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/temporary_directory.h"

namespace luthier::worker {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kRoot = 0;

Flags At(const std::string& server) {
  Flags flags;
  flags.server = server;
  return flags;
}

std::string Error(Flags flags, uid_t uid) {
  const auto account = ChooseAccount(&flags, uid);
  EXPECT_TRUE(absl::IsInvalidArgument(account.status())) << account.status();
  return std::string(account.status().message());
}

TEST(RunAs, RootIsToldWhatMendsIt) {
  Flags flags = At("db1.example:7790");
  EXPECT_THAT(Error(flags, kRoot), HasSubstr("--run-as USER"));
  EXPECT_THAT(Error(flags, kRoot), HasSubstr("--commands-from none"));
  EXPECT_TRUE(ChooseAccount(&flags, 1000).ok());
  flags.commands.none = true;
  EXPECT_TRUE(ChooseAccount(&flags, kRoot).ok());
  EXPECT_FALSE(flags.commands.needs_account);
}

TEST(RunAs, RootOfOneStudyWaitsForItsObjective) {
  Flags flags = At("db1.example:7790");
  flags.study = "demo";
  const auto account = ChooseAccount(&flags, kRoot);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_FALSE(account->has_value());
  EXPECT_TRUE(flags.commands.needs_account);
}

TEST(RunAs, RootMayAskForItself) {
  Flags flags = At("db1.example:7790");
  for (const char* root : {"root", "0"}) {
    flags.run_as = root;
    const auto account = ChooseAccount(&flags, kRoot);
    ASSERT_TRUE(account.ok()) << account.status();
    EXPECT_FALSE(account->has_value());
    EXPECT_FALSE(flags.commands.needs_account);
  }
  flags.run_as = "4294967293";  // Of a container, say, whose users have no names.
  EXPECT_TRUE(ChooseAccount(&flags, 4294967293).ok());
}

TEST(RunAs, AUserMustExistAndBeWithinReach) {
  Flags flags = At("db1.example:7790");
  flags.run_as = "no-such-user";
  EXPECT_THAT(Error(flags, kRoot), HasSubstr("there is no user"));
  if (geteuid() == 0) GTEST_SKIP() << "root may become anybody";
  flags.run_as = "root";
  EXPECT_THAT(Error(flags, geteuid()), HasSubstr("only root may"));
}

TEST(RunAs, ProjectsHaveUsersOfTheirOwn) {
  Flags flags = At("db1.example:7790");
  flags.run_as_of = {{"a", "root"}, {"b", "0"}};
  const auto others = ChooseAccount(&flags, kRoot);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_FALSE(others->has_value());
  EXPECT_EQ(*flags.commands.with_account, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(flags.projects, (std::vector<std::string>{"a", "b"})) << "trials of other projects would fail";
  flags.projects = {"b", "c"};
  ASSERT_TRUE(ChooseAccount(&flags, kRoot).ok());
  EXPECT_EQ(flags.projects, (std::vector<std::string>{"b", "c"}));
  flags.projects.clear();
  flags.study = "projects/a/studies/s";
  ASSERT_TRUE(ChooseAccount(&flags, kRoot).ok());
  EXPECT_TRUE(flags.projects.empty());
  const auto accounts = ChooseAccountsOf(flags, kRoot);
  ASSERT_TRUE(accounts.ok()) << accounts.status();
  EXPECT_EQ(accounts->size(), 2u);
  EXPECT_FALSE(accounts->at("a").has_value());
  // With a user for the others, commands of all are taken.
  Flags both = flags;
  both.commands.with_account.reset();
  both.run_as = "root";
  EXPECT_TRUE(ChooseAccount(&both, kRoot).ok());
  EXPECT_FALSE(both.commands.with_account.has_value());
  flags.run_as_of["b"] = "no-such-user";
  EXPECT_THAT(std::string(ChooseAccountsOf(flags, kRoot).status().message()), HasSubstr("b=no-such-user: there is no"));
  if (geteuid() != 0) return;
  flags.run_as_of = {{"a", "nobody"}};
  EXPECT_EQ(ChooseAccountsOf(flags, kRoot)->at("a")->name, "nobody");
}

TEST(RunAs, AnOwnSocketNeedsNothing) {
  const testing::TemporaryDirectory directory;
  if (geteuid() != 0) GTEST_SKIP() << "needs files of root";
  const std::string path = directory.path() + "/socket";
  Flags missing = At("unix:" + path);
  EXPECT_TRUE(ChooseAccount(&missing, kRoot).ok());  // Nobody else can make it there.
  ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);
  EXPECT_THAT(Error(missing, kRoot), HasSubstr("--run-as USER"));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  Flags beside = At("unix:" + path);
  EXPECT_THAT(Error(beside, kRoot), HasSubstr("--run-as USER"));  // Anybody may put another one there.
  ASSERT_EQ(chmod(directory.path().c_str(), 0700), 0);
  for (const std::string& server : {"unix:" + path, "unix://" + path}) {
    Flags flags = At(server);
    EXPECT_TRUE(ChooseAccount(&flags, kRoot).ok()) << server;
  }
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Error(missing, kRoot), HasSubstr("--run-as USER"));
}

}  // namespace
}  // namespace luthier::worker
