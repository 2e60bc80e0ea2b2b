#include <gtest/gtest.h>

#include <cstdio>

#include "tests/server/coordinator/explorer.h"

namespace luthier::coordinator::testing {
namespace {

void ExploreAll(const ExplorerOptions& options) {
  const ExplorerReport report = Explore(options);
  std::printf(
      "%d trials, %d attempts, %d worker crashes, %d releases, %d INFRA failures: %lld states, %lld transitions, "
      "depth %d\n",
      options.trials, options.max_attempts, options.worker_crashes, options.releases, options.infra_failures,
      static_cast<long long>(report.states), static_cast<long long>(report.transitions), report.max_depth);
  EXPECT_EQ(report.violation, "");
  EXPECT_TRUE(report.complete);
}

TEST(Exhaustive, TwoWorkersTwoTrialsTwoAttempts) {
  ExplorerOptions options;
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialReleasedAndFailedAndItsWorkersCrash) {
  ExplorerOptions options;
  options.trials = 1;
  options.releases = 1;
  options.infra_failures = 1;
  options.worker_crashes = 1;
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialInTwoParts) {
  ExplorerOptions options;
  options.parts = true;
  options.trials = 1;
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialWhoseEndIsAskedFor) {
  ExplorerOptions options;
  options.trials = 1;
  options.stops = 1;
  options.releases = 1;
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialInTwoPartsWhoseEndIsAskedFor) {
  ExplorerOptions options;
  options.parts = true;
  options.trials = 1;
  options.stops = 1;
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialBesideWhichAnotherIsImportedAndDeleted) {
  ExplorerOptions options;
  options.trials = 1;
  options.changes = {Change::kImport, Change::kDelete};
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialThatFailsIsRetriedAndNoted) {
  ExplorerOptions options;
  options.trials = 1;
  options.max_attempts = 1;
  options.infra_failures = 1;
  options.changes = {Change::kRetry, Change::kNote};
  ExploreAll(options);
}

TEST(Exhaustive, OneTrialThreeAttempts) {
  ExplorerOptions options;
  options.trials = 1;
  options.max_attempts = 3;
  options.worker_crashes = 1;
  ExploreAll(options);
}

}  // namespace
}  // namespace luthier::coordinator::testing
