#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_OPTIONS_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_OPTIONS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/process/account.h"

namespace luthier::worker {

struct CommandOptions {
  // Folder in which each run gets a private directory for its parameters file; empty: $TMPDIR, else /tmp.
  std::string temporary_root;
  // Time between SIGTERM and SIGKILL.
  absl::Duration grace = absl::Seconds(5);
  // Time between the wish to pause or to finish and SIGTERM.
  absl::Duration wish = absl::Seconds(5);
  // Time after which the newest line is reported as an intermediate result. Before that it may turn out to be the final
  // one, so it is reported only when another line follows.
  absl::Duration hold = absl::Seconds(1);
  // The GPU of each slot, as CUDA_VISIBLE_DEVICES names it, even if the study sets that variable. Empty: runs see the
  // GPUs that this process sees.
  std::vector<std::string> gpus;
  // User as whom programs run; absent: this process's own. For root alone.
  std::optional<Account> account;
  // The same for programs of these projects, in place of `account`.
  std::map<std::string, std::optional<Account>> accounts;
  // Variables of this process that programs get besides those that any program needs (environment.h): names, with * and
  // ?.
  std::vector<std::string> environment_allowed;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_OPTIONS_H_
