#include "worker/process/account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/worker/testing.h"
#include "worker/objectives/command.h"

namespace luthier::worker {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;

constexpr char kOther[] = "nobody";  // On every machine.

TEST(Account, IsFoundByNameAndNumber) {
  const auto named = FindAccount(kOther);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->name, kOther);
  EXPECT_THAT(named->groups, Contains(named->gid));
  EXPECT_EQ(FindAccount(absl::StrCat(named->uid))->name, kOther);
  for (const char* none : {"", "no-such-user", "4294967294", "-1", "0x0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FindAccount(none).status())) << none;
  }
}

TEST(Account, HasVariablesOfItsOwn) {
  const Account account{"trainer", "/home/trainer", "/bin/sh", 1234, 1234, {1234}};
  std::vector<std::string> environment = {
      "HOME=/root", "XDG_RUNTIME_DIR=/run/user/0", "USER=root", "PATH=/bin", "LOGNAME=root", "SUDO_USER=me",
      "USERNAME=x"};
  SetAccountVariables(account, &environment);
  EXPECT_THAT(environment, ElementsAre("PATH=/bin", "USERNAME=x", "HOME=/home/trainer", "USER=trainer",
                                       "LOGNAME=trainer", "SHELL=/bin/sh"));
}

// As root, which alone may become another user.
class RootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may run programs as another user";
    other_ = FindAccount(kOther).value();
    options_.account = other_;
    options_.temporary_root = temporary_.path();
    chmod(temporary_.path().c_str(), 0755);
    request_.study = "s";
    request_.trial = 1;
    request_.spec.metric.name = "loss";
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(temporary_.path());
  }
  void TearDown() override {
    if (!before_.empty()) std::filesystem::current_path(before_);
  }
  RunOutcome Run(const std::string& script) {
    request_.spec.objective = study::CommandObjective{{"/bin/sh", "-c", script}, {}, absl::InfiniteDuration(), 0, {}};
    const std::unique_ptr<Keeper> keeper = Keeper::Start().value();
    CommandRunner runner(keeper.get(), options_);
    return runner.Run(request_, &sink_);
  }

  const TemporaryDirectory temporary_;
  std::filesystem::path before_;
  Account other_;
  CommandOptions options_;
  RunRequest request_;
  RecordingSink sink_;
};

TEST_F(RootTest, CommandsRunAsTheAccount) {
  const RunOutcome outcome =
      Run("id -u; id -un; id -G; echo \"$HOME $USER\"; pwd; grep CapEff /proc/self/status; echo 'error' > /dev/stderr;"
          "cat \"$LUTHIER_PARAMETERS_FILE\" && touch \"$(dirname \"$LUTHIER_PARAMETERS_FILE\")/mine\" && echo "
          "'{{\"loss\": 1}}'");
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message << outcome.output_tail;
  EXPECT_THAT(outcome.output_tail,
              AllOf(HasSubstr(absl::StrCat(other_.uid, "\n", kOther, "\n")),
                    HasSubstr(absl::StrCat(other_.home, " ", kOther, "\n", temporary_.path(), "\n")),
                    HasSubstr("CapEff:\t0000000000000000"), HasSubstr("error")));
  EXPECT_TRUE(temporary_.Files().empty()) << "the private directory is gone, with what the program left there";
}

TEST_F(RootTest, CommandsCannotTouchWhatIsTheWorkers) {
  temporary_.Write("spool", "secret");
  chmod((temporary_.path() + "/spool").c_str(), 0600);
  const RunOutcome outcome = Run("cat spool; kill -0 $PPID; echo x > new; echo '{{\"loss\": 1}}'");
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message;
  EXPECT_THAT(outcome.output_tail, Not(HasSubstr("secret")));
  EXPECT_THAT(temporary_.Files(), ElementsAre("spool"));
}

TEST_F(RootTest, TheWorkersDirectoryMustBeOpenToIt) {
  EXPECT_TRUE(CheckAccount(other_).ok()) << CheckAccount(other_);
  chmod(temporary_.path().c_str(), 0700);
  const absl::Status closed = CheckAccount(other_);
  EXPECT_TRUE(absl::IsInvalidArgument(closed));
  EXPECT_THAT(std::string(closed.message()), HasSubstr("may not enter"));
  const RunOutcome outcome = Run("echo '{{\"loss\": 1}}'");
  EXPECT_EQ(outcome.failure.kind, study::FailureKind::kInfra);  // The setting is not to blame.
  EXPECT_THAT(outcome.failure.message, HasSubstr("as nobody"));
}

TEST_F(RootTest, AProgramThatIsNotForItIsNamed) {
  const std::string script = temporary_.Write("mine.sh", "#!/bin/sh\n");
  chmod(script.c_str(), 0700);
  request_.spec.objective = study::CommandObjective{{script}, {}, absl::InfiniteDuration(), 0, {}};
  const std::unique_ptr<Keeper> keeper = Keeper::Start().value();
  CommandRunner runner(keeper.get(), options_);
  const RunOutcome outcome = runner.Run(request_, &sink_);
  EXPECT_EQ(outcome.failure.reason, study::failure::kBadObjective);
  EXPECT_THAT(outcome.failure.message, AllOf(HasSubstr("mine.sh"), HasSubstr("as nobody")));
}

}  // namespace
}  // namespace luthier::worker
