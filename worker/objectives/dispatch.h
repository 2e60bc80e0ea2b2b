#ifndef LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_
#define LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_

#include "worker/run/runner.h"

namespace luthier::worker {

// Passes each run to the runner of the study's kind of objective. Both runners must outlive it.
class Dispatch final : public Runner {
 public:
  Dispatch(Runner* builtin, Runner* command) : builtin_(builtin), command_(command) {}

  absl::Status Open(const study::StudySpec& spec) override {
    Runner* runner = Find(spec);
    return runner != nullptr ? runner->Open(spec) : absl::FailedPreconditionError(kExternal);
  }
  RunOutcome Run(const RunRequest& request, RunSink* sink) override {
    Runner* runner = Find(request.spec);
    if (runner != nullptr) return runner->Run(request, sink);
    return Failed(study::FailureKind::kConfig, study::failure::kBadObjective, kExternal);
  }
  void Discard(const RunRequest& request) override {
    if (Runner* runner = Find(request.spec); runner != nullptr) runner->Discard(request);
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

  Runner* Find(const study::StudySpec& spec) const {
    if (std::holds_alternative<study::BuiltinObjective>(spec.objective)) return builtin_;
    return std::holds_alternative<study::CommandObjective>(spec.objective) ? command_ : nullptr;
  }

  Runner* const builtin_;
  Runner* const command_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_DISPATCH_H_
