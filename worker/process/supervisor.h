#ifndef LUTHIER_WORKER_PROCESS_SUPERVISOR_H_
#define LUTHIER_WORKER_PROCESS_SUPERVISOR_H_

#include <sys/types.h>

#include "worker/process/launch.h"

namespace luthier::worker {

// Runs a run's supervisor, a process between the keeper and a program. It starts the program, passes signals on, and
// reports when it has ended. Then, or when the worker or the keeper is gone, or on an order, it kills all descendants
// of the program: their orphans become its children. `keeper` is its own parent. Every signal is blocked.
// Async-signal-safe.
//
// The program gets: a session and process group of its own, without a terminal; no rights beyond its user's by
// executing something (PR_SET_NO_NEW_PRIVS); /dev/null as standard input, the pipes as 1, 2, 3 and 4, no other
// descriptor; default signal handling, nothing blocked; no core dumps; a higher chance than ours to be killed when the
// machine runs out of memory. The kernel kills it when the supervisor is killed.
[[noreturn]] void Supervise(const LaunchDescriptors& descriptors, pid_t keeper);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_SUPERVISOR_H_
