#ifndef LUTHIER_WORKER_OBJECTIVES_PROCESS_H_
#define LUTHIER_WORKER_OBJECTIVES_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/objectives/account.h"

namespace luthier::worker {

struct ProcessSpec {
  std::vector<std::string> argv;         // Not empty, no zero bytes. A program without '/' is looked up in PATH of …
  std::vector<std::string> environment;  // … NAME=value, the whole environment.
  int64_t memory_limit_bytes = 0;        // RLIMIT_AS of each process; 0: none.
  const Account* account = nullptr;      // Whose process it becomes; null: ours. For root alone.
};

// A program running in a process group of its own. It gets: standard input at its end, two pipes as standard output and
// error, a third as descriptor 3, one to read from as descriptor 4, no other descriptor; default signal handling,
// nothing blocked; no core dumps; a higher chance than ours to be chosen when the machine runs out of memory. The
// kernel kills it when the thread that started it ends. Used by that thread alone, except for KillGroup.
class Process {
 public:
  // Between fork and exec only async-signal-safe calls are made: other threads may hold any lock.
  // Errors that are about the program: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (no executable, arguments too
  // long), RESOURCE_EXHAUSTED with reason() LIMIT_EXCEEDED (the memory limit is too small to start it).
  // About this machine, its accounts included: UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const ProcessSpec& spec);
  // Kills the group and reaps.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Read ends, not blocking.
  int stdout_fd() const { return stdout_; }
  int stderr_fd() const { return stderr_; }
  int result_fd() const { return result_; }
  // A short line for descriptor 4. Lost when the program has closed it or does not read for long.
  void SendLine(const std::string& line);
  // Readable when the program has ended; -1 on kernels without it (then ask HasEnded now and then).
  int exit_fd() const { return exit_; }
  pid_t pid() const { return pid_; }

  // Sends `signal` to every process of the group. Not after Reap.
  void SignalGroup(int signal);
  // Returns true if the program itself has ended (others of its group may live on).
  bool HasEnded();
  // Waits for the program's end, kills what is left of its group, and returns the wait status.
  int Reap();

 private:
  Process() = default;

  pid_t pid_ = -1;
  int stdout_ = -1, stderr_ = -1, result_ = -1, reply_ = -1, exit_ = -1;
  bool reaped_ = false;
};

// Path of `program` as a shell would find it; NOT_FOUND or PERMISSION_DENIED with the places that were searched.
absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_PROCESS_H_
