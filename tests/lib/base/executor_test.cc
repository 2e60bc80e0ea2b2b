#include "lib/base/executor.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace luthier::base
