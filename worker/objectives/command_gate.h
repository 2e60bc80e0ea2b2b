#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_GATE_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_GATE_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "worker/runner.h"

namespace luthier::worker {

// Whose commands a worker runs, as its own command line says it. Nothing that a coordinator sends widens it.
struct CommandPolicy {
  bool any = false;                // True: it runs those of every project.
  bool none = false;               // True: it runs none at all.
  std::set<std::string> projects;  // It runs those of these; of its own where no field says anything.
  bool needs_account = false;      // True: it is root and was not told as whom to run them, so it runs none.
};

// Goes on from "this worker".
inline constexpr char kNeedsAccount[] =
    "would run the commands of others with root's rights; give --run-as USER, or --commands-from none to run none "
    "(docs/reference/worker.md)";

// The reason of trials that are refused; they fail as INFRA, so another worker may run them.
inline constexpr char kCommandRefused[] = "COMMAND_REFUSED";

// Passes on the runs of projects whose commands this worker takes, and refuses the others.
class CommandGate final : public Runner {
 public:
  // `study`: the id of the only study that is worked for, or empty. `own_project`: asks which project is the worker's
  // own; called until it has answered once, and not at all where the policy needs no answer. Both pointers must outlive
  // the gate.
  CommandGate(Runner* command, CommandPolicy policy, std::string study,
              std::function<absl::StatusOr<std::string>()> own_project)
      : command_(command), policy_(std::move(policy)), study_(std::move(study)), own_project_(std::move(own_project)) {}

  // FAILED_PRECONDITION for a study whose commands are not taken.
  absl::Status Open(const study::StudySpec& spec) override;
  RunOutcome Run(const RunRequest& request, RunSink* sink) override;
  void Discard(const RunRequest& request) override { command_->Discard(request); }
  void DiscardStudy(const std::string& study) override { command_->DiscardStudy(study); }
  void Abort() override { command_->Abort(); }

 private:
  // FAILED_PRECONDITION with the flag that mends it; errors of `own_project`.
  absl::Status Admit(const std::string& study);

  Runner* const command_;
  const CommandPolicy policy_;
  const std::string study_;
  const std::function<absl::StatusOr<std::string>()> own_project_;
  base::Mutex mutex_;
  std::string own_ ABSL_GUARDED_BY(mutex_);  // The worker's own project; empty: not known yet.
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_GATE_H_
