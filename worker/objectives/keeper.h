#ifndef LUTHIER_WORKER_OBJECTIVES_KEEPER_H_
#define LUTHIER_WORKER_OBJECTIVES_KEEPER_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "worker/objectives/launch.h"

namespace luthier::worker {

// A process that starts the programs of a worker's runs and outlives the worker by no more than it takes to end them.
//
//   luthier-worker ── luthier-keeper ── luthier-run (one a run, supervisor.h) ── the program ── whatever it starts
//
// Whoever of the first three is killed, by SIGKILL too, the others end the run, with everything that descends from the
// program: sessions, groups and daemons of its own included. What a supervisor's descendants leave behind is its child;
// when it is killed, the program dies (PR_SET_PDEATHSIG) and the rest is the keeper's child, who kills it. Keeper and
// supervisors see the worker's end at a socket whose other end it alone has. When the keeper is killed, the supervisors
// end their runs, which fail as INFRA, and the next program gets a new keeper. SIGSTOP does not help a run of the same
// user: the keeper continues a supervisor that is stopped, and is continued itself for each new program and when the
// worker dies. Only who kills all three at once, stops the keeper again and again, or gets his processes started by
// another daemon (cron, systemd-run, docker), leaves something behind; with --run-as only the last.
//
// It is forked before the worker has threads and data, so it is small, and supervisors, which are forked from it, are
// too. No control group is used: one that may be written to is rare (it takes a delegation), and systemd, which
// delegates them, kills the whole of it by itself when a worker ends.
class Keeper {
 public:
  // Best called while this process has one thread and little memory. UNAVAILABLE when the machine lacks something.
  static absl::StatusOr<std::unique_ptr<Keeper>> Start();
  // Ends all runs, and waits for that.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Has a supervisor started. The descriptors stay the caller's. Thread-safe. UNAVAILABLE as Start; all else is told at
  // the control socket.
  absl::Status Launch(const LaunchDescriptors& descriptors);
  // Thread-safe.
  pid_t pid() const;

 private:
  Keeper() = default;
  absl::Status Fork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = -1;
  base::Descriptor socket_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_KEEPER_H_
