#ifndef LUTHIER_WORKER_FLAGS_H_
#define LUTHIER_WORKER_FLAGS_H_

#include <cstdint>
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
  std::vector<std::string> projects;  // Asked in turn; empty: that of the token.
  int slots = 1;
  std::vector<std::string> gpus;  // One for each slot, as CUDA_VISIBLE_DEVICES names it; empty: none are handed out.
  CommandPolicy commands;
  std::string run_as;                            // User of commands; empty: not said.
  std::vector<std::string> environment_allowed;  // Variables that they get besides what any needs.
  std::string name;
  std::string data_root;
  std::string spool;
  std::string checkpoints;
  std::string data_cache;
  int64_t data_cache_bytes = 0;  // Limit of that directory; 0: keep nothing.
  bool exit_when_done = false;
  int64_t max_trials = 0;
  absl::Duration drain_timeout;
  base::LogLevel log_level = base::LogLevel::kInfo;
};

// Returns std::nullopt if everything was said (help, version, or what is wrong, to standard output or error), exit with
// *exit_code. Where GPUs are found; CUDA_VISIBLE_DEVICES is read from the environment unless it is given.
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code, GpuSources gpus = {});

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_FLAGS_H_
