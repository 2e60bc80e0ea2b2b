#ifndef LUTHIER_CLIENT_CLI_WORKER_POOL_H_
#define LUTHIER_CLIENT_CLI_WORKER_POOL_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"

namespace luthier::cli {

// Worker processes that live and die with this one. Each runs in a process group of its own, so that a terminal's
// Ctrl-C reaches this program alone. The kernel kills them when the thread that made the pool ends (PR_SET_PDEATHSIG),
// so all calls must come from that thread. A worker that ends is started again after 0.5 s, then 1 s, … 30 s.
class WorkerPool {
 public:
  struct Worker {
    std::vector<std::string> argv;  // argv[0]: path of the program.
    std::string log;                // File that takes what it prints, appended.
  };
  // Starts nothing yet. `clock` must outlive the pool.
  WorkerPool(std::vector<Worker> workers, const base::Clock* clock);
  // Kills the workers that still run.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Collects the workers that ended, and starts those that are due. FAILED_PRECONDITION if a worker says that it can't
  // evaluate the study, with its words; if workers end at once again and again, with the end of the log; INTERNAL if
  // none can be started.
  absl::Status Tick();
  // Asks all workers to finish (SIGTERM), waits at most `patience` or until `hurry` returns true, then kills them.
  void Stop(absl::Duration patience, const std::function<bool()>& hurry = [] { return false; });
  int restarts() const { return restarts_; }

 private:
  struct Slot {
    Worker worker;
    pid_t pid = -1;
    absl::Duration started;
    absl::Duration due;    // When to start it.
    int quick_deaths = 0;  // In a row.
  };
  absl::Status Launch(Slot* slot);
  // True if it does not run (any more); *code says how it ended: exit code, or 128 + signal.
  static bool Reap(Slot* slot, int* code);

  std::vector<Slot> slots_;
  const base::Clock* const clock_;
  int restarts_ = 0;
};

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_WORKER_POOL_H_
