#ifndef LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_
#define LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_

#include "worker/objective.h"

namespace luthier::worker {

// Hands each run to the one who knows the study's kind of objective. Both must outlive it.
class Dispatch final : public Objective {
 public:
  Dispatch(Objective* builtin, Objective* command) : builtin_(builtin), command_(command) {}

  absl::Status Open(const study::StudySpec& spec) override {
    Objective* objective = Find(spec);
    return objective != nullptr ? objective->Open(spec) : absl::FailedPreconditionError(kExternal);
  }
  RunOutcome Run(const RunRequest& request, RunSink* sink) override {
    Objective* objective = Find(request.spec);
    if (objective != nullptr) return objective->Run(request, sink);
    return Failed(study::FailureKind::kConfig, study::failure::kBadObjective, kExternal);
  }
  void Discard(const RunRequest& request) override {
    if (Objective* objective = Find(request.spec); objective != nullptr) objective->Discard(request);
  }
  void DiscardStudy(const std::string& study) override {
    builtin_->DiscardStudy(study);
    command_->DiscardStudy(study);
  }
  void Abort() override {
    builtin_->Abort();
    command_->Abort();
  }

 private:
  static constexpr char kExternal[] =
      "its objective is external: its trials are evaluated by whoever asks and tells, not by workers; give it a "
      "command "
      "or a builtin objective";

  Objective* Find(const study::StudySpec& spec) const {
    if (std::holds_alternative<study::BuiltinObjective>(spec.objective)) return builtin_;
    return std::holds_alternative<study::CommandObjective>(spec.objective) ? command_ : nullptr;
  }

  Objective* const builtin_;
  Objective* const command_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_
