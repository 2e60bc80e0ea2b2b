#ifndef LUTHIER_WORKER_PROCESS_PROCESS_H_
#define LUTHIER_WORKER_PROCESS_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "worker/process/keeper.h"
#include "worker/process/launch.h"

namespace luthier::worker {

// A program that a supervisor runs (supervisor.h says what the program gets). Used by one thread, except for KillAll.
// However this process ends, no descendant of the program outlives it.
class Process {
 public:
  // Errors that are about the program: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (no executable, arguments too
  // long), RESOURCE_EXHAUSTED with reason() LIMIT_EXCEEDED (the memory limit is too small to start it).
  // About this machine, its accounts included: UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Process>> Start(Keeper* keeper, const ProcessSpec& spec);
  // Kills everything that is left, and waits for that as Reap does.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Read ends, not blocking.
  int stdout_fd() const { return stdout_.get(); }
  int stderr_fd() const { return stderr_.get(); }
  int result_fd() const { return result_.get(); }
  // Writes a short line to descriptor 4. It is lost if the program has closed that or does not read for long.
  void SendLine(const std::string& line);
  // Returns a descriptor that is readable when the program has ended.
  int exit_fd() const { return control_.get(); }
  pid_t pid() const { return pid_; }

  // Sends `signal` to every process of the program's group.
  void SignalGroup(int signal);
  // Sends SIGKILL to the program and all its descendants, whatever their group or session. Any thread.
  void KillAll();
  // Returns true if the program itself has ended (others may live on).
  bool HasEnded();
  // Waits for the program's end, kills its remaining descendants, waits until they are gone (for five seconds: a
  // process may hang in the kernel), and returns the wait status.
  int Reap();
  // True if the supervisor was killed, or the keeper. It is then unknown how the program ended.
  bool lost() const { return lost_; }

 private:
  Process() = default;
  absl::Status AwaitStart(const std::string& path, const ProcessSpec& spec);
  void Order(int signal);
  // Reads at most one packet from the supervisor; false if there is none within `milliseconds` (-1: wait for ever).
  bool Listen(int milliseconds);

  pid_t pid_ = -1;
  base::Descriptor stdout_, stderr_, result_, reply_, control_;
  bool ended_ = false, lost_ = false;
  bool gone_ = false;  // The supervisor has ended, and so has everything.
  int status_ = 0;
};

// Returns the path of `program` as a shell would find it; NOT_FOUND or PERMISSION_DENIED with the places that were
// searched.
absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_PROCESS_H_
