#include "lib/base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace luthier::base {
namespace {

class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }
  void WaitUntil(int count) {
    MutexLock lock(&mutex_);
    while (count_ < count) changed_.Wait(&mutex_);
  }
  bool WaitOnce(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, timeout);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, AWaiterSeesWhatOtherThreadsDid) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 1000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) counter.Add();
    });
  }
  counter.WaitUntil(kThreads * kTimes);
  for (std::thread& thread : threads) thread.join();
}

TEST(MutexTest, AWaitEndsWhenItsTimeIsUp) {
  Counter counter;
  EXPECT_TRUE(counter.WaitOnce(absl::ZeroDuration()));
}

}  // namespace
}  // namespace luthier::base
