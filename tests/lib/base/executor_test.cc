#include "lib/base/executor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/synchronization/notification.h"

namespace luthier::base {
namespace {

TEST(Executor, AFullQueueTakesNoMore) {
  absl::Notification held, release, done;
  Executor executor(1, 2);
  ASSERT_TRUE(executor.Schedule([&] {
    held.Notify();
    release.WaitForNotification();
  }));
  held.WaitForNotification();
  EXPECT_TRUE(executor.Schedule([] {}));
  EXPECT_TRUE(executor.Schedule([&] { done.Notify(); }));
  EXPECT_FALSE(executor.Schedule([] {}));
  release.Notify();
  done.WaitForNotification();
  EXPECT_TRUE(executor.Schedule([] {}));
}

TEST(Executor, APlaceIsKeptForWhoReservedIt) {
  absl::Notification done;
  Executor executor(1, 2);
  Executor::Place first = executor.Reserve();
  Executor::Place second = executor.Reserve();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(executor.Reserve());
  EXPECT_FALSE(executor.Schedule([] {}));
  second.reset();
  second = executor.Reserve();
  EXPECT_TRUE(second) << "a place that was given back is free";
  executor.Schedule(std::move(first), [&] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_TRUE(executor.Reserve()) << "a task that runs takes no place";
}

TEST(Executor, TheDestructorRunsWhatIsQueued) {
  int runs = 0;
  {
    Executor executor(1, 100);
    for (int i = 0; i < 100; ++i) executor.Schedule([&] { ++runs; });
  }
  EXPECT_EQ(runs, 100);
}

TEST(Executor, ThreadsOfLowPriorityStepBack) {
  int own = 0, low = 0;
  {
    Executor ordinary(1, 1), stepping_back(1, 1, /*low_priority=*/true);
    ordinary.Schedule([&] { own = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); });
    stepping_back.Schedule([&] { low = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); });
  }
  EXPECT_EQ(own, getpriority(PRIO_PROCESS, 0));
  EXPECT_GE(low, 10);
}

}  // namespace
}  // namespace luthier::base
