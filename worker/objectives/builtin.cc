#include "worker/objectives/builtin.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"
#include "lib/study/warm_start.h"

namespace luthier::worker {
namespace {

constexpr absl::Duration kLookForStop = absl::Milliseconds(10);

RunOutcome Unfit(const absl::Status& status) {
  // True if the setting would exceed its limit at every worker.
  const bool everywhere =
      absl::IsInvalidArgument(status) || absl::IsDataLoss(status) || absl::IsResourceExhausted(status);
  return Failed(everywhere ? study::FailureKind::kConfig : study::FailureKind::kInfra, study::failure::kBadObjective,
                std::string(status.message()));
}

RunOutcome ToOutcome(objectives::EvaluationResult result) {
  RunOutcome outcome;
  outcome.output_tail = PrintableTail(result.note, kTailBytes);
  switch (result.outcome) {
    case objectives::EvaluationOutcome::kComplete:
      outcome.result = RunResult::kComplete;
      break;
    case objectives::EvaluationOutcome::kStopped:
      outcome.result = RunResult::kPruned;
      break;
    case objectives::EvaluationOutcome::kPaused:
      outcome.result = RunResult::kPaused;
      break;
    case objectives::EvaluationOutcome::kCancelled:
      outcome.result = RunResult::kStopped;
      return outcome;
    case objectives::EvaluationOutcome::kFailed:
      if (result.failure) {
        outcome.result = RunResult::kFailed;
        outcome.failure = *std::move(result.failure);
        outcome.failure.message = PrintableTail(outcome.failure.message, kTailBytes);
        return outcome;
      }
      return Failed(study::FailureKind::kInfra, kWorkerError, "the objective failed and does not say why");
  }
  if (!result.measurement) {
    return Failed(study::FailureKind::kInfra, kWorkerError, "the objective has finished and gives no value");
  }
  outcome.measurement = *std::move(result.measurement);
  return outcome;
}

}  // namespace

BuiltinRunner::BuiltinRunner(const data::DataRoot* root, const CheckpointStore* checkpoints,
                             const data::DataCache* cache)
    : BuiltinRunner(
          [root, cache](const study::BuiltinObjective& objective, const study::SearchSpace& space,
                        const study::MetricSpec& metric, const base::StopToken& stop) {
            return objectives::CreateObjective(objective, space, metric, root, cache, stop);
          },
          checkpoints) {}

BuiltinRunner::BuiltinRunner(Factory factory, const CheckpointStore* checkpoints)
    : factory_(std::move(factory)), checkpoints_(checkpoints) {}

absl::StatusOr<std::shared_ptr<const objectives::Objective>> BuiltinRunner::Find(const study::StudySpec& spec,
                                                                                 const base::StopToken& stop) {
  const auto& objective = std::get<study::BuiltinObjective>(spec.objective);
  const base::MutexLock lock(&mutex_);
  while (true) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->objective != objective || it->space != spec.space || it->metric != spec.metric) continue;
      Entry entry = std::move(*it);
      entries_.erase(it);
      entries_.push_front(std::move(entry));
      return entries_.front().made;
    }
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    if (!loading_) break;
    // Slots that start together on one study must not load it twice. A stop does not wake this wait, so it has a time
    // limit.
    loaded_.WaitFor(&mutex_, kLookForStop);
  }
  loading_ = true;
  mutex_.Unlock();
  absl::StatusOr<std::unique_ptr<objectives::Objective>> made = [&] {
    try {
      return factory_(objective, spec.space, spec.metric, stop);
    } catch (...) {  // For instance, out of memory: the other slots go on.
      mutex_.Lock();
      loading_ = false;
      loaded_.SignalAll();
      throw;
    }
  }();
  mutex_.Lock();
  loading_ = false;
  loaded_.SignalAll();
  LUTHIER_RETURN_IF_ERROR(made.status());
  entries_.push_front({objective, spec.space, spec.metric, *std::move(made)});
  if (entries_.size() > kCached) entries_.pop_back();
  return entries_.front().made;
}

RunOutcome BuiltinRunner::Run(const RunRequest& request, RunSink* sink) {
  const absl::StatusOr<std::shared_ptr<const objectives::Objective>> objective =
      Find(request.spec, sink->stop().token());
  if (absl::IsCancelled(objective.status())) {
    RunOutcome outcome;
    outcome.result = RunResult::kStopped;
    return outcome;
  }
  if (!objective.ok()) return Unfit(objective.status());
  const std::string trial = absl::StrCat(request.study, "/", request.trial);

  objectives::EvaluationContext context;
  context.parameters = request.parameters;
  context.gradient = request.gradient;
  context.by_gradients_alone = std::holds_alternative<study::HoagOptions>(request.spec.algorithm);
  context.direction = request.direction;
  context.tolerance = request.tolerance;
  context.seed = request.seed;
  context.attempt = request.attempt;
  context.target = request.target_step;
  context.stop = sink->stop().token();
  context.clock = &clock_;
  context.report = [sink](const study::Measurement& measurement) {
    sink->Report(measurement, "");
    return true;  // A stop comes through `context.stop`, which saves a checkpoint.
  };
  // Reason why training does not start from the model of another trial.
  std::string cold = "its model is of other data or settings";
  std::string why = "it is of another version, other data or other options";
  if (checkpoints_ == nullptr) {
    why = cold = "this worker keeps no checkpoints";
  } else {
    if (!request.resume_checkpoint.empty()) {
      absl::StatusOr<std::string> snapshot = checkpoints_->Load(request.resume_checkpoint);
      if (snapshot.ok())
        context.checkpoint = *std::move(snapshot);
      else
        why = std::string(snapshot.status().message());
    }
    if (request.warm_start > 0) {
      absl::StatusOr<std::string> model =
          checkpoints_->Load(CheckpointStore::Reference(request.study, request.warm_start, CheckpointStore::kModel));
      if (model.ok())
        context.warm_start = *std::move(model);
      else
        cold = std::string(model.status().message());
    }
    context.save_model = [this, &request, &trial](const std::string& model) {
      const absl::Status saved =
          checkpoints_->Save(request.study, request.trial, CheckpointStore::kModel, model).status();
      if (!saved.ok()) base::LogWarning("model_not_kept", {{"trial", trial}, {"error", std::string(saved.message())}});
    };
    context.save_checkpoint = [this, &request, sink, &trial](const std::string& snapshot) {
      absl::StatusOr<std::string> reference =
          checkpoints_->Save(request.study, request.trial, request.attempt, snapshot);
      if (reference.ok()) {
        sink->Checkpoint(*std::move(reference));
      } else {
        base::LogWarning("checkpoint_failed", {{"trial", trial}, {"error", std::string(reference.status().message())}});
      }
    };
  }
  context.started = [&](bool resumed, int64_t step) { sink->Started(step, resumed ? "" : why); };
  absl::StatusOr<objectives::EvaluationResult> result = (*objective)->Evaluate(context);
  if (!result.ok()) return Unfit(result.status());
  if (!context.checkpoint.empty()) {
    base::LogInfo("checkpoint_loaded", {{"trial", trial}, {"used", result->resumed ? "yes" : "no"}});
  }
  if (study::WarmStarts(request.spec)) {
    if (!result->note.empty()) result->note += "\n";
    result->note += result->warm_started ? absl::StrCat("started from the model of trial ", request.warm_start)
                    : result->resumed    ? "started from zero"
                    : request.warm_start > 0
                        ? absl::StrCat("started from zero, not from trial ", request.warm_start, ": ", cold)
                        : "started from zero: no complete trial differs in strengths alone";
  }
  if (!result->note.empty()) base::LogInfo("objective", {{"trial", trial}, {"note", result->note}});
  return ToOutcome(*std::move(result));
}

void BuiltinRunner::Discard(const RunRequest& request) {
  if (checkpoints_ == nullptr) return;
  checkpoints_->Remove(CheckpointStore::Reference(request.study, request.trial, request.attempt));
  // Only this trial's own files are removed: the reference came from the service and might name another's.
  for (int32_t attempt = 1; attempt < request.attempt; ++attempt) {
    checkpoints_->Remove(CheckpointStore::Reference(request.study, request.trial, attempt));
  }
}

void BuiltinRunner::DiscardStudy(const std::string& study) {
  if (checkpoints_ != nullptr) checkpoints_->RemoveStudy(study);
}

}  // namespace luthier::worker
