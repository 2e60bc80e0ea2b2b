#include "worker/signal_watcher.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace luthier::worker {
namespace {

using ::testing::ElementsAre;

// Needs a program without other threads, which would not block the signals.
TEST(SignalWatcher, CallsForEachSignalAndEnds) {
  SignalWatcher::BlockSignals();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, int>> seen;
  {
    const SignalWatcher watcher([&](int signal, int count) {
      const std::lock_guard<std::mutex> lock(mutex);
      seen.emplace_back(signal, count);
      changed.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex);
    kill(getpid(), SIGTERM);
    changed.wait(lock, [&] { return seen.size() == 1; });
    kill(getpid(), SIGTERM);  // A batch script passes on what its engine has sent to the worker as well.
    kill(getpid(), SIGINT);
    changed.wait(lock, [&] { return seen.size() == 2; });
  }
  EXPECT_THAT(seen, ElementsAre(std::pair(SIGTERM, 1), std::pair(SIGINT, 2)));
  {
    const SignalWatcher unused([](int, int) {});
  }
}

}  // namespace
}  // namespace luthier::worker
