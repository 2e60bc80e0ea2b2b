#include <gtest/gtest.h>

#include <cstdio>

#include "tests/server/coordinator/explorer.h"

namespace luthier::coordinator::testing {
namespace {

void ExploreAll(const char* name, const ExplorerOptions& options) {
  const ExplorerReport report = Explore(options);
  std::printf("%s: %lld states, %lld transitions, depth %d\n", name, static_cast<long long>(report.states),
              static_cast<long long>(report.transitions), report.max_depth);
  EXPECT_EQ(report.violation, "");
  EXPECT_TRUE(report.complete);
}

TEST(Exhaustive, TwoWorkersTwoTrialsTwoAttempts) {
  ExplorerOptions options;
  options.worker_crashes = 1;
  ExploreAll("2 workers, 2 trials, 2 attempts, 1 crash", options);
}

}  // namespace
}  // namespace luthier::coordinator::testing
