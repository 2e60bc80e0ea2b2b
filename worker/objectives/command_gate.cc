#include "worker/objectives/command_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"

namespace luthier::worker {

absl::Status CommandGate::Admit(const std::string& study) {
  if (policy_.needs_account) {
    return absl::FailedPreconditionError(absl::StrCat("started as root, this worker ", kNeedsAccount));
  }
  const std::string project(study::ProjectOf(study));
  if (!policy_.none && policy_.with_account && !policy_.with_account->contains(project)) {
    return absl::FailedPreconditionError(
        absl::StrCat("started as root, this worker has no user for commands of project ", project, ", of which study ",
                     base::Quote(study), " is; start it with --run-as ", project, "=USER"));
  }
  if (policy_.any) return absl::OkStatus();
  if (policy_.none) {
    return absl::FailedPreconditionError(
        absl::StrCat("this worker takes no commands (--commands-from none), and study ", base::Quote(study),
                     " has one; start it with --commands-from ", project));
  }
  std::set<std::string> accepted = policy_.projects;
  if (accepted.empty()) {
    {
      const base::MutexLock lock(&mutex_);
      accepted = own_;
    }
    if (accepted.empty()) {
      LUTHIER_ASSIGN_OR_RETURN(const std::vector<std::string> own, own_projects_());
      accepted.insert(own.begin(), own.end());
      const base::MutexLock lock(&mutex_);
      own_ = accepted;
    }
  }
  if (accepted.contains(project)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this worker takes commands of project ", absl::StrJoin(accepted, ", "), " alone, and study ",
                   base::Quote(study), " is of project ", project, "; start it with --commands-from ", project));
}

absl::Status CommandGate::Open(const study::StudySpec& spec) {
  LUTHIER_RETURN_IF_ERROR(Admit(study_));
  return command_->Open(spec);
}

RunOutcome CommandGate::Run(const RunRequest& request, RunSink* sink) {
  const absl::Status admitted = Admit(request.study);
  if (admitted.ok()) return command_->Run(request, sink);
  const std::string why(admitted.message());
  base::LogWarning("command_refused", {{"study", request.study}, {"error", why}});
  return Failed(study::FailureKind::kInfra, kCommandRefused, why);
}

}  // namespace luthier::worker
