#include <gtest/gtest.h>

#include <cstdio>

#include "tests/server/coordinator/random_walk.h"

namespace luthier::coordinator::testing {
namespace {

void RunWalks(uint64_t first_seed, int walks, int steps, bool late) {
  WalkStats stats;
  for (int i = 0; i < walks; ++i) {
    WalkOptions options;
    options.seed = first_seed + static_cast<uint64_t>(i);
    options.steps = steps;
    options.delay_proposals = late;
    std::printf("%llu ", static_cast<unsigned long long>(options.seed));  // Known even if a walk ends in an abort.
    std::fflush(stdout);
    const std::string wrong = CheckWalk(options, &stats);
    ASSERT_EQ(wrong, "");
  }
  std::printf(
      "\nseeds %llu … %llu: %lld operations in %lld batches, %lld failed commits, %lld restarts, %lld grants of which "
      "%lld again, %lld refusals, %lld of them for a limit, %lld for a token that had ended (%lld asks that waited), "
      "%lld final trials, "
      "%lld gradients set aside, %lld pauses, %lld promotions, %lld changed specs, %lld removed trials, %lld repeated "
      "requests\n",
      static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(first_seed) + walks - 1,
      static_cast<long long>(stats.operations), static_cast<long long>(stats.batches),
      static_cast<long long>(stats.failed_commits), static_cast<long long>(stats.restarts),
      static_cast<long long>(stats.grants), static_cast<long long>(stats.regrants),
      static_cast<long long>(stats.refused), static_cast<long long>(stats.limited), static_cast<long long>(stats.ended),
      static_cast<long long>(stats.ended_waiting), static_cast<long long>(stats.finals),
      static_cast<long long>(stats.set_aside), static_cast<long long>(stats.paused),
      static_cast<long long>(stats.promoted), static_cast<long long>(stats.updated),
      static_cast<long long>(stats.removed), static_cast<long long>(stats.repeated));
  // A walk that never gets anywhere proves nothing.
  EXPECT_GT(stats.grants, stats.operations / 50);
  EXPECT_GT(stats.regrants, stats.operations / 200);
  EXPECT_GT(stats.finals, stats.operations / 50);
  EXPECT_GT(stats.limited, stats.operations / 500);
  EXPECT_GT(stats.ended, stats.operations / 50);
  EXPECT_GT(stats.ended_waiting, stats.operations / 4000);
  EXPECT_GT(stats.failed_commits, stats.operations / 1000);
  EXPECT_GT(stats.set_aside, stats.operations / 3000);
  EXPECT_GT(stats.updated, stats.operations / 200);
  EXPECT_GT(stats.stopped, stats.operations / 400);
  EXPECT_GT(stats.removed, stats.operations / 400);
  EXPECT_GT(stats.repeated, stats.operations / 400);
  if (late) {
    EXPECT_GT(stats.promoted, stats.operations / 500);
  }
}

TEST(RandomOperations, TheCoreAnswersAsTheNaiveModel) {
  RunWalks(1, 60, 5000, /*late=*/false);
}

TEST(RandomOperations, InvariantsHoldWhenSuggestionsComeLate) {
  RunWalks(1001, 30, 7000, /*late=*/true);
}

}  // namespace
}  // namespace luthier::coordinator::testing
