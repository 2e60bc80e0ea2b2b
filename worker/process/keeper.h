#ifndef LUTHIER_WORKER_PROCESS_KEEPER_H_
#define LUTHIER_WORKER_PROCESS_KEEPER_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "worker/process/launch.h"

namespace luthier::worker {

// A process that starts the programs of a worker's runs and outlives the worker by no more than it takes to end them.
//
//   luthier-worker ── luthier-keeper ── luthier-run (one a run, supervisor.h) ── the program ── whatever it starts
//
// If one of the first three is killed, even by SIGKILL, the others end the run with all descendants of the program,
// including its own sessions, groups and daemons. Orphans among a supervisor's descendants become its children. When
// the supervisor is killed, the program dies (PR_SET_PDEATHSIG), and the rest become children of the keeper, which
// kills them. Keeper and supervisors see the worker's end at a socket whose other end only the worker has. When the
// keeper is killed, the supervisors end their runs, which fail as INFRA, and the next program gets a new keeper. A run
// of the same user can't escape by SIGSTOP: the keeper continues a stopped supervisor, and is continued itself for each
// new program and when the worker dies. Something is left behind only if a run kills all three at once, stops the
// keeper again and again, or has another daemon (cron, systemd-run, docker) start its processes; with --run-as only the
// last is possible.
//
// The keeper is forked before the worker has threads and data, so it is small, and so are supervisors, which are forked
// from it. No control group is used: a writable one is rare (it takes a delegation), and systemd, which delegates them,
// kills the whole group by itself when a worker ends.
class Keeper {
 public:
  // Best called while this process has one thread and little memory. UNAVAILABLE if the machine lacks something.
  static absl::StatusOr<std::unique_ptr<Keeper>> Start();
  // Ends all runs, and waits for that.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Starts a supervisor through the keeper. The caller keeps the descriptors. Thread-safe. UNAVAILABLE as Start; all
  // other news comes through the control socket.
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

#endif  // LUTHIER_WORKER_PROCESS_KEEPER_H_
