#ifndef LUTHIER_WORKER_OBJECTIVES_PROCESS_H_
#define LUTHIER_WORKER_OBJECTIVES_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "worker/objectives/keeper.h"
#include "worker/objectives/launch.h"

namespace luthier::worker {

// A program that a supervisor (supervisor.h says what it gets) runs and looks after. Used by one thread, except for
// KillAll. Whatever becomes of this process, nothing that descends from the program outlives it.
class Process {
 public:
  // Errors that are about the program: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (no executable, arguments too
  // long), RESOURCE_EXHAUSTED with reason() LIMIT_EXCEEDED (the memory limit is too small to start it).
  // About this machine, its accounts included: UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Process>> Start(Keeper* keeper, const ProcessSpec& spec);
  // Kills all that is left, and waits for that as Reap does.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Read ends, not blocking.
  int stdout_fd() const { return stdout_.get(); }
  int stderr_fd() const { return stderr_.get(); }
  int result_fd() const { return result_.get(); }
  // A short line for descriptor 4. Lost when the program has closed it or does not read for long.
  void SendLine(const std::string& line);
  // Readable when the program has ended.
  int exit_fd() const { return control_.get(); }
  pid_t pid() const { return pid_; }

  // Sends `signal` to every process of the program's group.
  void SignalGroup(int signal);
  // SIGKILL to the program and all that descends from it, whatever group or session that is in. Any thread.
  void KillAll();
  // Returns true if the program itself has ended (others may live on).
  bool HasEnded();
  // Waits for the program's end, kills what it has left, waits until that is gone (for five seconds: a process may hang
  // in the kernel), and returns the wait status.
  int Reap();
  // True if the supervisor was killed, or the keeper. Then nothing is known of how the program ended.
  bool lost() const { return lost_; }

 private:
  Process() = default;
  absl::Status AwaitStart(const std::string& path, const ProcessSpec& spec);
  void Order(int signal);
  // Takes what the supervisor says, at most one packet; false when there is none within `milliseconds` (-1: ever).
  bool Listen(int milliseconds);

  pid_t pid_ = -1;
  base::Descriptor stdout_, stderr_, result_, reply_, control_;
  bool ended_ = false, lost_ = false;
  bool gone_ = false;  // The supervisor, and so everything.
  int status_ = 0;
};

// Path of `program` as a shell would find it; NOT_FOUND or PERMISSION_DENIED with the places that were searched.
absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_PROCESS_H_
