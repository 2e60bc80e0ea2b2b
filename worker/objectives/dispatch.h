#ifndef LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_
#define LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_

#include "worker/objective.h"

namespace luthier::worker {

// Hands each run to the one who knows the study's kind of objective. Both must outlive it.
class Dispatch final : public Objective {
 public:
  Dispatch(Objective* builtin, Objective* command) : builtin_(builtin), command_(command) {}

  RunOutcome Run(const RunRequest& request, RunSink* sink) override {
    Objective* objective = Find(request);
    if (objective != nullptr) return objective->Run(request, sink);
    return Failed(study::FailureKind::kConfig, study::failure::kBadObjective,
                  "the study's objective is external: no worker evaluates it");
  }
  void Discard(const RunRequest& request) override {
    if (Objective* objective = Find(request); objective != nullptr) objective->Discard(request);
  }
  void Abort() override {
    builtin_->Abort();
    command_->Abort();
  }

 private:
  Objective* Find(const RunRequest& request) const {
    if (std::holds_alternative<study::BuiltinObjective>(request.spec.objective)) return builtin_;
    return std::holds_alternative<study::CommandObjective>(request.spec.objective) ? command_ : nullptr;
  }

  Objective* const builtin_;
  Objective* const command_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_
