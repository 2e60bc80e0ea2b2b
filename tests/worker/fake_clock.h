#ifndef LUTHIER_TESTS_WORKER_FAKE_CLOCK_H_
#define LUTHIER_TESTS_WORKER_FAKE_CLOCK_H_

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <vector>

#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// What the fakes of a test share: every change in one of them wakes whoever drives the test.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
};

// A clock that moves only when told to, and knows who waits for which time. Thread-safe.
class FakeWaitClock final : public WaitClock {
 public:
  explicit FakeWaitClock(World* world) : world_(world) {}

  absl::Duration Monotonic() const override {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    return now_;
  }
  void WaitUntil(base::Mutex* mutex, base::CondVar* cv, absl::Duration deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::list<Waiter>::iterator self;
    {
      const std::lock_guard<std::mutex> lock(world_->mutex);
      if (now_ >= deadline) return;
      self = waiters_.insert(waiters_.end(), Waiter{mutex, cv, deadline});
      world_->changed.notify_all();
    }
    cv->Wait(mutex);
    const std::lock_guard<std::mutex> lock(world_->mutex);
    waiters_.erase(self);
  }

  void Advance(absl::Duration by) {
    std::vector<Waiter> waiters;
    {
      const std::lock_guard<std::mutex> lock(world_->mutex);
      now_ += by;
      // Those that wait for no time need not outlive this call.
      std::copy_if(waiters_.begin(), waiters_.end(), std::back_inserter(waiters),
                   [](const Waiter& waiter) { return waiter.deadline < absl::InfiniteDuration(); });
    }
    for (const Waiter& waiter : waiters) {
      // Whoever registered holds the mutex until it really waits, so no signal is missed.
      const base::MutexLock lock(waiter.mutex);
      waiter.cv->SignalAll();
    }
  }

  // How many threads wait for a change and for no time. Call it with the world's mutex held.
  int WaitingForever() const {
    int count = 0;
    for (const Waiter& waiter : waiters_) count += waiter.deadline == absl::InfiniteDuration();
    return count;
  }

  // Waits until `done`, which is called with the world's mutex held, moving time on whenever somebody waits for it.
  // Needs a runtime that is still alive.
  void Drive(const std::function<bool()>& done) {
    std::unique_lock<std::mutex> lock(world_->mutex);
    while (!done()) {
      const absl::Duration next = NextDeadline();
      if (next == absl::InfiniteDuration()) {
        world_->changed.wait(lock);
        continue;
      }
      const absl::Duration by = next - now_;
      lock.unlock();
      Advance(by);
      lock.lock();
    }
  }

 private:
  struct Waiter {
    base::Mutex* mutex;
    base::CondVar* cv;
    absl::Duration deadline;
  };

  absl::Duration NextDeadline() const {
    absl::Duration next = absl::InfiniteDuration();
    for (const Waiter& waiter : waiters_) {
      if (waiter.deadline > now_) next = std::min(next, waiter.deadline);
    }
    return next;
  }

  World* const world_;
  absl::Duration now_ = absl::Seconds(1000);
  std::list<Waiter> waiters_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_FAKE_CLOCK_H_
