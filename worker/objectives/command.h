#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_H_

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "lib/base/mutex.h"
#include "worker/objectives/command_options.h"
#include "worker/process/keeper.h"
#include "worker/process/process.h"
#include "worker/run/runner.h"

namespace luthier::worker {

// Runs `command` objectives: a program in a session of its own, without a shell. docs/guide/command_objective.md says
// what the program gets and what it may answer. When a run is over nothing that descends from the program is left.
//
// How a run ends:
//   stop signal               SIGTERM to the group, SIGKILL after `grace`  -> kStopped
//   target reached, or told   a line on descriptor 4, the same after
//   to pause                  `wish`                                       -> kPaused
//   told to finish            a line on descriptor 4, the same after
//                             `wish`                                       -> kPruned; without a result kStopped
//   timeout                   the same                                     -> FAILED(CONFIG, TIMEOUT)
//   its supervisor is killed                                               -> FAILED(INFRA, WORKER_ERROR)
//   malformed line on fd 3    the same                                     -> FAILED(CONFIG, BAD_OUTPUT)
//   exit 0, the newest result on standard output cannot be read            -> FAILED(CONFIG, BAD_OUTPUT)
//   program cannot be started                                              -> FAILED(CONFIG, BAD_OBJECTIVE)
//   this machine cannot start any                                          -> FAILED(INFRA, WORKER_ERROR)
//   exit 0 with a result                                                   -> kComplete or kPruned;
//                                        with a target, unless it says that it is complete: kPaused
//   exit 0 without                                                         -> FAILED(CONFIG, NO_RESULT)
//   exit 75 (EX_TEMPFAIL)                                                  -> FAILED(INFRA, EXIT_CODE)
//   memory limit, and SIGKILL, SIGABRT or a word about memory on stderr    -> FAILED(CONFIG, MEMORY_LIMIT)
//   other exit code                                                        -> FAILED(CONFIG, EXIT_CODE)
//   SIGTERM, SIGINT, SIGHUP not sent by us (somebody shuts the machine)    -> FAILED(INFRA, SIGNAL)
//   other signal                                                           -> FAILED(CONFIG, SIGNAL)
// Memory per run is bounded whatever the program writes.
class CommandRunner final : public Runner {
 public:
  // `keeper` must outlive it.
  explicit CommandRunner(Keeper* keeper, CommandOptions options = {}) : keeper_(keeper), options_(std::move(options)) {}

  // NOT_FOUND or PERMISSION_DENIED if this machine can't run the program. If its name depends on parameters, or it is
  // looked up in a PATH of the study's own, only Run can tell.
  absl::Status Open(const study::StudySpec& spec) override;
  RunOutcome Run(const RunRequest& request, RunSink* sink) override;
  // Sends SIGKILL to all running programs and their descendants, and starts no new ones.
  void Abort() override;

 private:
  Keeper* const keeper_;
  const CommandOptions options_;
  base::Mutex mutex_;
  std::set<Process*> running_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_H_
