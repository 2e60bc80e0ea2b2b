#include "lib/base/executor.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace luthier::base {

Executor::Executor(int threads, size_t max_queued, bool low_priority) : max_queued_(max_queued) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, low_priority] { Work(low_priority); });
}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

bool Executor::Schedule(std::function<void()> task) {
  Place place = Reserve();
  if (!place) return false;
  Schedule(std::move(place), std::move(task));
  return true;
}

Executor::Place Executor::Reserve() {
  MutexLock lock(&mutex_);
  if (stopping_ || places_ >= max_queued_) return nullptr;
  ++places_;
  return Place(this, [this](void*) {
    MutexLock unlock(&mutex_);
    --places_;
  });
}

void Executor::Schedule(Place place, std::function<void()> task) {
  {
    MutexLock lock(&mutex_);
    queue_.emplace_back(std::move(place), std::move(task));
  }
  changed_.Signal();
}

void Executor::Work(bool low_priority) {
  if (low_priority) LowerThreadPriority();
  while (true) {
    std::pair<Place, std::function<void()>> next;
    {
      MutexLock lock(&mutex_);
      while (queue_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (queue_.empty()) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next.first.reset();
    next.second();
  }
}

// SCHED_IDLE would get nothing beside training on all processors: a fit of 5 s took 150 s beside two compilers.
constexpr int kLowNiceness = 10;

void LowerThreadPriority() {
  sched_param param{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowNiceness);
}

}  // namespace luthier::base
