#include "lib/base/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace luthier::base {
namespace {

TEST(TeamTest, EveryTaskIsDoneOnceByAThreadOfTheTeam) {
  for (const int threads : {1, 2, 5}) {
    Team team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const int64_t count : {0, 1, 2, 3, 100}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<int>> times(static_cast<size_t>(count));
        std::atomic<bool> known = true;
        team.Run(count, [&](int64_t task, int thread) {
          ++times[static_cast<size_t>(task)];
          if (thread < 0 || thread >= threads) known = false;
        });
        for (const std::atomic<int>& t : times) EXPECT_EQ(t, 1);
        EXPECT_TRUE(known);
      }
    }
  }
}

TEST(TeamTest, WritesOfTasksAreVisibleAfterwards) {
  Team team(3);
  std::vector<int64_t> cells(50, 0);
  for (int64_t round = 1; round <= 200; ++round) {
    team.Run(50, [&](int64_t task, int) { cells[static_cast<size_t>(task)] += task; });
    for (int64_t k = 0; k < 50; ++k) ASSERT_EQ(cells[static_cast<size_t>(k)], k * round);
  }
}

TEST(TeamTest, TasksOfOneThreadComeInOrder) {
  Team team(1);
  std::vector<int64_t> order;
  team.Run(5, [&](int64_t task, int thread) {
    order.push_back(task);
    EXPECT_EQ(thread, 0);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace luthier::base
