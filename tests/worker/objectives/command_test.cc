#include "worker/objectives/command.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/python.h"
#include "tests/worker/command_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::StartsWith;

TEST_F(CommandTest, OpenLooksForTheProgram) {
  CommandRunner runner(keeper_.get(), options_);
  Command({"sh", "-c", "exit 1"});
  EXPECT_TRUE(runner.Open(request_.spec).ok());
  Command({"no-such-program"});
  EXPECT_TRUE(absl::IsNotFound(runner.Open(request_.spec)));
  EXPECT_THAT(std::string(runner.Open(request_.spec).message()), StartsWith("objective.command.argv[0]: "));
  Command({"no-such-{kind}"});  // Only a trial can tell.
  EXPECT_TRUE(runner.Open(request_.spec).ok());
  Command({"no-such-program"}).environment["PATH"] = "/somewhere";
  EXPECT_TRUE(runner.Open(request_.spec).ok());
}

// Whether a process is gone, or a zombie that only waits for its parent.
bool Gone(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

TEST_F(CommandTest, GrandchildrenDieWithTheRun) {
  // The grandchild keeps standard output open: waiting for its end would take for ever.
  Shell(R"(sleep 600 & echo "{\"loss\": $!}")");
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete);
  EXPECT_TRUE(Gone(static_cast<pid_t>(outcome.measurement.metrics.at("loss"))));
}

TEST_F(CommandTest, DaemonsDieWithTheRun) {
  Shell(R"(file=$LUTHIER_PARAMETERS_FILE.daemon; export file
           setsid sh -c 'trap "" TERM; (setsid sleep 600 &); echo $$ > $file; sleep 600' > /dev/null 2>&1 &
           while [ ! -s $file ]; do :; done; echo "{\"loss\": $(cat $file)}")");
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message;
  EXPECT_TRUE(Gone(static_cast<pid_t>(outcome.measurement.metrics.at("loss"))));
}

TEST_F(CommandTest, AProgramThatKillsItsSupervisorDiesAndIsTriedAgain) {
  Shell("kill -9 $PPID; sleep 600");
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kInfra, "WORKER_ERROR");
  EXPECT_THAT(outcome.failure.message, HasSubstr("was killed"));
}

TEST_F(CommandTest, AKeeperThatIsKilledIsReplaced) {
  const pid_t before = keeper_->pid();
  kill(before, SIGKILL);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(before), &info, WEXITED | WNOWAIT), 0);
  Shell(R"(echo '{"loss": 1}')");
  ExpectLoss(Run(), 1.0);
  EXPECT_NE(keeper_->pid(), before);
}

TEST_F(CommandTest, AKeeperThatIsKilledEndsItsRuns) {
  options_.hold = absl::ZeroDuration();
  Shell(R"(trap '' TERM; echo '{"loss": 1}'; sleep 600; sleep 600)");
  sink_.on_report = [&] { kill(keeper_->pid(), SIGKILL); };
  ExpectFailure(Run(), kInfra, "WORKER_ERROR");
}

TEST_F(CommandTest, GrandchildrenDieWhenStopped) {
  options_.hold = absl::ZeroDuration();
  options_.grace = absl::Milliseconds(50);
  Shell(R"(trap '' TERM; sleep 600 & echo "{\"loss\": $!}"; wait; wait)");
  sink_.on_report = [this] { sink_.stop_.Request(StopReason::kCancelled); };
  EXPECT_EQ(Run().result, RunResult::kStopped);
  EXPECT_TRUE(Gone(static_cast<pid_t>(sink_.reports.at(0).metrics.at("loss"))));
}

TEST_F(CommandTest, AbortKillsAtOnce) {
  options_.hold = absl::ZeroDuration();
  CommandRunner runner(keeper_.get(), options_);
  Shell(R"(trap '' TERM; echo '{"loss": 1}'; while :; do sleep 600; done)");
  sink_.on_report = [&] { runner.Abort(); };
  ExpectFailure(runner.Run(request_, &sink_), kConfig, "SIGNAL");
}

TEST_F(CommandTest, ManyRunsAtOnceDoNotMixTheirPipes) {
  CommandRunner runner(keeper_.get(), options_);
  Shell(R"(echo "{\"loss\": $LUTHIER_TRIAL}")");
  std::vector<std::thread> threads;
  std::vector<double> losses(8, 0.0);
  for (int k = 0; k < 8; ++k) {
    threads.emplace_back([&, k] {
      for (int round = 0; round < 5; ++round) {
        RunRequest request = request_;
        request.trial = 100 * k + round;
        RecordingSink sink;
        losses[k] += runner.Run(request, &sink).measurement.metrics["loss"];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int k = 0; k < 8; ++k) EXPECT_EQ(losses[k], 500.0 * k + 10.0);
}

TEST_F(CommandTest, TheExampleTrains) {
  LUTHIER_NEEDS_PYTHON();
  const char* source = getenv("LUTHIER_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "needs LUTHIER_SOURCE_DIR, which ctest sets";
  Command({testing::kPython, "-S", absl::StrCat(source, "/examples/command/train.py"), "--learning-rate={lr}",
           "--l2=0.1", "--momentum=0.9"});
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message;
  EXPECT_LT(outcome.measurement.metrics.at("loss"), 0.69) << "better than guessing";
  EXPECT_EQ(outcome.measurement.step, 19);
  EXPECT_THAT(sink_.reports, SizeIs(19));
}

}  // namespace
}  // namespace luthier::worker
