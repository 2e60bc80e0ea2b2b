#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_GATE_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_GATE_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "worker/run/runner.h"

namespace luthier::worker {

// The projects whose commands a worker runs, by its own command line. Nothing that a coordinator sends widens it.
struct CommandPolicy {
  bool any = false;   // Commands of every project are run.
  bool none = false;  // No commands are run.
  // Projects whose commands are run; if empty, without `any` and `none`: all of the worker's own.
  std::set<std::string> projects;
  // Projects whose commands have a user as whom they run; those of others are refused. Absent: all have.
  std::optional<std::set<std::string>> with_account = std::nullopt;
  bool needs_account = false;  // The worker is root and has no user to run commands as, so it runs none.
};

// Continues a sentence that begins with "this worker".
inline constexpr char kNeedsAccount[] =
    "would run the commands of others with root's rights; give --run-as USER, or --commands-from none to run none "
    "(docs/reference/worker.md)";

// The reason of trials that are refused; they fail as INFRA, so another worker may run them.
inline constexpr char kCommandRefused[] = "COMMAND_REFUSED";

// Passes on runs of projects whose commands this worker accepts, and refuses the others.
class CommandGate final : public Runner {
 public:
  // `study` is the id of the worker's only study, or empty. `own_projects` returns the worker's own projects; it is
  // called until it has answered once, and not at all if the policy needs no answer. Both pointers must outlive the
  // gate.
  CommandGate(Runner* command, CommandPolicy policy, std::string study,
              std::function<absl::StatusOr<std::vector<std::string>>()> own_projects)
      : command_(command),
        policy_(std::move(policy)),
        study_(std::move(study)),
        own_projects_(std::move(own_projects)) {}

  // FAILED_PRECONDITION for a study whose commands are not accepted.
  absl::Status Open(const study::StudySpec& spec) override;
  RunOutcome Run(const RunRequest& request, RunSink* sink) override;
  void Discard(const RunRequest& request) override { command_->Discard(request); }
  void DiscardStudy(const std::string& study) override { command_->DiscardStudy(study); }
  void Abort() override { command_->Abort(); }

 private:
  // FAILED_PRECONDITION naming the flag that mends it; errors of `own_projects`.
  absl::Status Admit(const std::string& study);

  Runner* const command_;
  const CommandPolicy policy_;
  const std::string study_;
  const std::function<absl::StatusOr<std::vector<std::string>>()> own_projects_;
  base::Mutex mutex_;
  std::set<std::string> own_ ABSL_GUARDED_BY(mutex_);  // The worker's own projects; empty: not known yet.
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_GATE_H_
