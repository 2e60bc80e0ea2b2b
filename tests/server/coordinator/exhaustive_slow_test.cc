// The wider searches: minutes, not seconds.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/server/coordinator/explorer.h"

namespace luthier::coordinator::testing {
namespace {

void ExploreAll(const ExplorerOptions& options) {
  const ExplorerReport report = Explore(options);
  std::printf("%lld states, %lld transitions, depth %d\n", static_cast<long long>(report.states),
              static_cast<long long>(report.transitions), report.max_depth);
  EXPECT_EQ(report.violation, "");
  EXPECT_TRUE(report.complete);
}

TEST(ExhaustiveSlow, TwoTrialsAndAWorkerThatCrashes) {
  ExplorerOptions options;
  options.worker_crashes = 1;
  ExploreAll(options);
}

TEST(ExhaustiveSlow, OneTrialInTwoPartsReleased) {
  ExplorerOptions options;
  options.parts = true;
  options.trials = 1;
  options.releases = 1;
  ExploreAll(options);
}

TEST(ExhaustiveSlow, TwoTrialsAndARelease) {
  ExplorerOptions options;
  options.releases = 1;
  ExploreAll(options);
}

TEST(ExhaustiveSlow, OneTrialThreeAttemptsReleasedFailedAndCrashed) {
  ExplorerOptions options;
  options.trials = 1;
  options.max_attempts = 3;
  options.releases = 1;
  options.infra_failures = 1;
  options.worker_crashes = 1;
  ExploreAll(options);
}

TEST(ExhaustiveSlow, OneTrialAndThenOneMore) {
  ExplorerOptions options;
  options.trials = 1;
  options.changes = {Change::kMoreTrials, Change::kNote};
  ExploreAll(options);
}

}  // namespace
}  // namespace luthier::coordinator::testing
