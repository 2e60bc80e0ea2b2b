#ifndef LUTHIER_LIB_BASE_TEAM_H_
#define LUTHIER_LIB_BASE_TEAM_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lib/base/mutex.h"

namespace luthier::base {

// Threads that share the tasks of one caller, again and again: for loops whose rounds last a fraction of a millisecond.
// Threads without a task sleep. One thread may call at a time.
class Team {
 public:
  using Work = absl::FunctionRef<void(int64_t task, int thread)>;

  // `threads` >= 1 is the number of all threads, the caller's included.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return 1 + static_cast<int>(helpers_.size()); }

  // Calls work(task, thread) once for each task 0 ... count - 1, begun in this order, thread 0 being the caller.
  // Returns when all calls have returned. It does not wait for threads that have not begun a task: on a busy machine
  // the running ones do the work.
  void Run(int64_t count, Work work);

 private:
  void Help(int thread);
  // Works until no task is left to begin.
  void Share(int thread);

  Mutex mutex_;
  CondVar begun_, finished_;
  const Work* work_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Set while some task has not returned.
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> helpers_;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_TEAM_H_
