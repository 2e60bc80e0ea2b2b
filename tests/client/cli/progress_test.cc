#include "client/cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace luthier::cli {
namespace {

v1::Study At(int64_t complete, int64_t running = 0, int64_t failed = 0) {
  v1::Study study;
  study.mutable_spec()->mutable_budget()->set_max_trials(40);
  study.mutable_trials()->set_complete(complete);
  study.mutable_trials()->set_running(running);
  study.mutable_trials()->set_failed(failed);
  if (complete > 0) {
    study.set_best_trial(1);
    study.set_best_value(0.125);
  }
  return study;
}

TEST(ProgressLine, ShowsWhatFits) {
  EXPECT_EQ(ProgressLine(At(20, 2, 1), 0.5, 100),
            "[###############...............] 21/40  best 0.125 (trial 1)  2 running  1 failed  0.5/s  ETA 0:38");
  EXPECT_EQ(ProgressLine(At(20, 2, 1), 0.001, 100),
            "[##############.............] 21/40  best 0.125 (trial 1)  2 running  1 failed  0.1/min  ETA 5:16:40");
  EXPECT_EQ(ProgressLine(At(40), 0.5, 80), "[##############################] 40/40  best 0.125 (trial 1)");
  EXPECT_EQ(ProgressLine(At(0), 0.0, 80), "[..............................] 0/40");
  EXPECT_EQ(ProgressLine(At(20, 2), 1.0, 20), "20/40  best 0.125 (t");
  EXPECT_EQ(ProgressLine(v1::Study(), 0.0, 0), "");
}

TEST(Progress, TerminalLineIsWrittenOver) {
  std::ostringstream out;
  {
    Progress progress(&out, 60);
    progress.Show(At(0), absl::Seconds(100));
    progress.Show(At(1), absl::Seconds(100) + absl::Milliseconds(50));  // Too soon.
    progress.Show(At(10), absl::Seconds(105));
  }
  EXPECT_EQ(out.str(),
            "\r\033[K[..............................] 0/40"
            "\r\033[K[###.........] 10/40  best 0.125 (trial 1)  2.0/s  ETA 0:15\n");
}

TEST(Progress, PipeGetsALineWhenSomethingChangedOrAMinuteWentBy) {
  std::ostringstream out;
  {
    Progress progress(&out, 0);
    progress.Show(At(0, 2), absl::Seconds(100));
    progress.Show(At(1, 2), absl::Seconds(104));  // Too soon.
    progress.Show(At(2, 2), absl::Seconds(105));
    progress.Show(At(2, 2), absl::Seconds(164));  // Nothing new.
    progress.Show(At(2, 2), absl::Seconds(165));
    progress.Show(At(3, 1, 1), absl::Seconds(170));
  }
  EXPECT_EQ(out.str(),
            "0/40 done, 2 running\n"
            "2/40 done, best 0.125 (trial 1), 2 running\n"
            "2/40 done, best 0.125 (trial 1), 2 running\n"
            "4/40 done, best 0.125 (trial 1), 1 running, 1 failed\n");
}

}  // namespace
}  // namespace luthier::cli
