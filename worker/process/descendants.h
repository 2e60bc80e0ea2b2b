#ifndef LUTHIER_WORKER_PROCESS_DESCENDANTS_H_
#define LUTHIER_WORKER_PROCESS_DESCENDANTS_H_

#include <sys/types.h>

// For processes that adopt the orphans among their descendants (PR_SET_CHILD_SUBREAPER). Everything is
// async-signal-safe and for processes of one thread.
namespace luthier::worker {

// Sends SIGKILL to each child of this process that is not among `spared`, and to its process group if that began below
// us: nothing can be forked into a group that is being killed. Children of killed processes become ours, so repeating
// this until no child is left ends all descendants, whatever sessions they began. Only children are signalled, since no
// other process can get their number before we have waited for them. Returns how many there were, or -1 if /proc can't
// be read.
int KillChildren(const pid_t* spared, int spared_count);

// Waits until a child may have ended or become ours, at most `milliseconds`. `signals` is a signalfd of SIGCHLD.
void AwaitChild(int signals, int milliseconds);

// Gives this process another name and command line, for people who list processes.
void NameProcess(const char* name);

// Makes a signalfd of SIGCHLD and SIGTERM, with every signal blocked. -1 when there is no descriptor left.
int OpenSignals();

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_DESCENDANTS_H_
