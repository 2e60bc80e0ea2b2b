#ifndef LUTHIER_WORKER_FLAGS_H_
#define LUTHIER_WORKER_FLAGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lib/base/log.h"
#include "lib/wire/channel.h"
#include "worker/gpus.h"
#include "worker/objectives/command_gate.h"

namespace luthier::worker {

// The command line of luthier-worker, checked, with all defaults filled in.
struct Flags {
  std::string server;
  wire::ChannelSecurity security;
  std::string study;
  std::string pool;
  std::vector<std::string> projects;  // Projects that it asks in turn; empty: that of the token.
  int slots = 1;
  std::vector<std::string> gpus;  // GPU of each slot, as CUDA_VISIBLE_DEVICES names it; empty: none are handed out.
  CommandPolicy commands;
  std::string run_as;                            // User of commands; empty: not given.
  std::map<std::string, std::string> run_as_of;  // The same by project, in place of `run_as`.
  std::vector<std::string> environment_allowed;  // Variables that commands get besides those that any program needs.
  std::string name;
  std::string data_root;
  std::string spool;
  std::string checkpoints;
  std::string data_cache;
  int64_t data_cache_bytes = 0;  // Limit of the cache directory; 0: keep nothing.
  bool exit_when_done = false;
  absl::Duration exit_when_idle = absl::InfiniteDuration();
  int64_t max_trials = 0;
  absl::Duration drain_timeout = absl::Seconds(2);
  absl::Duration stop_grace = absl::Seconds(5);  // From SIGTERM to SIGKILL of a command.
  int drain_exit_code = 0;
  base::LogLevel log_level = base::LogLevel::kInfo;
};

// Returns std::nullopt if the program is to exit with *exit_code, because it has printed help, version, or an error.
// `gpus` says where GPUs are found; CUDA_VISIBLE_DEVICES is read from the environment unless it is given.
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code, GpuSources gpus = {});

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_FLAGS_H_
