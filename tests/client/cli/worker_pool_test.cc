#include "client/cli/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "lib/base/clock.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;

class WorkerPoolTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  WorkerPool::Worker Script(const std::string& script) const {
    return {.argv = {"/bin/sh", "-c", script}, .log = Path("log")};
  }
  // Ticks, without the clock moving, until `done`; false when that takes too long.
  bool TickUntil(WorkerPool& pool, const std::function<bool()>& done) const {
    const base::SystemClock real;
    const absl::Duration until = real.Monotonic() + absl::Seconds(20);
    while (!done()) {
      status_ = pool.Tick();
      if (!status_.ok() || real.Monotonic() > until) return done();
    }
    return true;
  }

  const testing::TemporaryDirectory directory_;
  base::ManualClock clock_;
  mutable absl::Status status_;
};

TEST_F(WorkerPoolTest, EndedWorkerIsStartedAgainAfterAPause) {
  WorkerPool pool({Script("echo once")}, &clock_);
  ASSERT_TRUE(TickUntil(pool, [&] { return pool.restarts() == 1; })) << status_;
  ASSERT_TRUE(pool.Tick().ok());
  EXPECT_EQ(Read("log"), "once\n");
  clock_.Advance(absl::Milliseconds(500));
  ASSERT_TRUE(TickUntil(pool, [&] { return pool.restarts() == 2; })) << status_;
  EXPECT_EQ(Read("log"), "once\nonce\n");
}

TEST_F(WorkerPoolTest, WorkersThatKeepDyingAreReportedWithTheirLog) {
  WorkerPool pool({Script("echo no such data set; exit 1")}, &clock_);
  for (int death = 1; death < 5; ++death) {
    ASSERT_TRUE(TickUntil(pool, [&] { return pool.restarts() == death; })) << status_;
    clock_.Advance(absl::Seconds(4));
  }
  EXPECT_FALSE(TickUntil(pool, [] { return false; }));
  EXPECT_EQ(status_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status_.message()), HasSubstr("exit code 1"));
  EXPECT_THAT(std::string(status_.message()), HasSubstr("no such data set"));
}

TEST_F(WorkerPoolTest, TheReasonOfAWorkerThatCannotEvaluateIsReported) {
  WorkerPool pool({Script("echo starting; echo 'luthier-worker: data.csv: no such file'; exit 78")}, &clock_);
  EXPECT_FALSE(TickUntil(pool, [] { return false; }));
  EXPECT_EQ(status_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status_.message()),
            "data.csv: no such file\nno trial was spent on it; the log is " + Path("log"));
}

TEST_F(WorkerPoolTest, UsageErrorsAndMissingProgramsAreNotTriedAgain) {
  WorkerPool usage({Script("exit 2")}, &clock_);
  EXPECT_FALSE(TickUntil(usage, [] { return false; }));
  EXPECT_THAT(std::string(status_.message()), HasSubstr("exit code 2"));
  WorkerPool missing({{.argv = {"/nonexistent/program"}, .log = Path("log")}}, &clock_);
  EXPECT_FALSE(TickUntil(missing, [] { return false; }));
  EXPECT_THAT(std::string(status_.message()), HasSubstr("exit code 127"));
}

TEST_F(WorkerPoolTest, StopLetsWorkersFinishThenKills) {
  WorkerPool polite({Script("trap 'echo finished; exit 0' TERM; echo ready; while :; do sleep 0.01; done")}, &clock_);
  ASSERT_TRUE(TickUntil(polite, [&] { return Read("log") == "ready\n"; })) << status_;
  polite.Stop(absl::Seconds(1));  // The clock stands still: it waits as long as it takes.
  EXPECT_EQ(Read("log"), "ready\nfinished\n");

  WorkerPool deaf({Script("trap '' TERM; echo deaf; while :; do sleep 0.01; done")}, &clock_);
  ASSERT_TRUE(TickUntil(deaf, [&] { return Read("log") == "ready\nfinished\ndeaf\n"; })) << status_;
  deaf.Stop(absl::Hours(1), [] { return true; });  // In a hurry.
}

TEST_F(WorkerPoolTest, WorkersAreAloneInTheirProcessGroupWithSignalsUnblocked) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  WorkerPool pool({Script("ps -o pgid= -p $$ | tr -d ' '; echo $$; grep SigBlk /proc/self/status; exec sleep 100")},
                  &clock_);
  const bool ticked = TickUntil(pool, [&] { return Read("log").find("SigBlk") != std::string::npos; });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(ticked) << status_;
  std::istringstream log(Read("log"));
  std::string group;
  std::string process;
  std::string blocked;
  log >> group >> process;
  std::getline(log, blocked);
  std::getline(log, blocked);
  EXPECT_EQ(group, process);
  EXPECT_EQ(blocked, "SigBlk:\t0000000000000000");
}

}  // namespace
}  // namespace luthier::cli
