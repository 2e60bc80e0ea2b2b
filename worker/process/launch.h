#ifndef LUTHIER_WORKER_PROCESS_LAUNCH_H_
#define LUTHIER_WORKER_PROCESS_LAUNCH_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/process/account.h"

// Messages between a worker, its keeper (keeper.h) and the supervisors of its runs (supervisor.h).
namespace luthier::worker {

struct ProcessSpec {
  // Program and arguments: not empty, without zero bytes. A program without '/' is looked up in PATH of `environment`.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=value: the whole environment of the program.
  int64_t memory_limit_bytes = 0;        // RLIMIT_AS of each process; 0: none.
  const Account* account = nullptr;      // User as whom the program runs; null: ours. For root alone.
};

// Descriptors that go to the keeper with each program to be started, in this order.
struct LaunchDescriptors {
  int output = -1, error = -1, result = -1;  // Pipes to write to.
  int reply = -1;                            // A pipe to read from.
  int control = -1;  // A socket: SupervisorOrder packets come in, SupervisorNews packets go out.
  int request = -1;  // A file with what PackRequest returned.
};
inline constexpr int kLaunchDescriptors = 6;
static_assert(sizeof(LaunchDescriptors) == kLaunchDescriptors * sizeof(int));

// A packet to a supervisor: a signal for the program's process group, or kKillAll. When the socket ends, the supervisor
// kills all, and ends.
struct SupervisorOrder {
  static constexpr int32_t kKillAll = -1;  // Every descendant of the program, whatever its group or session.
  int32_t signal = 0;
};

// A packet from a supervisor: kStarted or one of the refusals first, then kEnded. When the socket ends, nothing of the
// run is left.
struct SupervisorNews {
  enum Kind : int32_t {
    kStarted,         // `value` is the program's process id.
    kRefused,         // It was not started; the value is errno of execve, or of a call before it.
    kAccountRefused,  // The same for switching to the account, or for entering the directory as that user.
    kEnded,           // The program itself has ended, with this wait status.
  };
  Kind kind = kEnded;
  int32_t value = 0;
};

// A request in memory: argv and environment, each closed by a null pointer, and the account's groups.
struct LaunchRequest {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  uint64_t memory_limit = 0;
  bool has_account = false;
  uid_t uid = 0;
  gid_t gid = 0;
  size_t group_count = 0;
  const gid_t* groups = nullptr;
};

// Packs a request. `path` is the program that was found for spec.argv[0].
std::string PackRequest(const std::string& path, const ProcessSpec& spec);
// Maps the content of `fd`; false, with errno, if that fails. Async-signal-safe. The memory stays mapped.
bool MapRequest(int fd, LaunchRequest* request);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_LAUNCH_H_
