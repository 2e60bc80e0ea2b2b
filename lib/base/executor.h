#ifndef LUTHIER_LIB_BASE_EXECUTOR_H_
#define LUTHIER_LIB_BASE_EXECUTOR_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"

namespace luthier::base {

// A fixed number of threads and a bounded queue. Thread-safe. The destructor runs the queued tasks, then joins.
class Executor {
 public:
  // `low_priority`: its threads step back for others (LowerThreadPriority).
  Executor(int threads, size_t max_queued, bool low_priority = false);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns false if the queue is full; the task is not taken then.
  bool Schedule(std::function<void()> task);

  // A place in the queue for a task still to come. The last copy gives it back. It must not outlive the executor.
  using Place = std::shared_ptr<void>;
  // Returns null if the queue is full.
  Place Reserve();
  // Takes the task for certain, and uses up the place.
  void Schedule(Place place, std::function<void()> task);

 private:
  void Work(bool low_priority);

  const size_t max_queued_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::pair<Place, std::function<void()>>> queue_ ABSL_GUARDED_BY(mutex_);
  size_t places_ ABSL_GUARDED_BY(mutex_) = 0;  // Number of reserved places, those of queued tasks included.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// Lets the calling thread step back for others without starving: beside one of ordinary priority it gets a tenth of a
// processor (SCHED_BATCH, nice 10). For model fitting beside a server.
void LowerThreadPriority();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_EXECUTOR_H_
