#ifndef LUTHIER_LIB_OBJECTIVES_TRAINING_EVALUATION_H_
#define LUTHIER_LIB_OBJECTIVES_TRAINING_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/objectives/epoch_axis.h"
#include "lib/objectives/objective.h"
#include "lib/study/measurement.h"

namespace luthier::objectives {

// One evaluation of an objective whose folds are trained along an axis of passes. It reports, pauses, checkpoints and
// ends as the context asks; derived classes know the trainings. Methods that return bool return false once `result_` is
// final.
class TrainingEvaluation {
 public:
  virtual ~TrainingEvaluation() = default;
  TrainingEvaluation(const TrainingEvaluation&) = delete;
  TrainingEvaluation& operator=(const TrainingEvaluation&) = delete;

 protected:
  // `context` must outlive this. `fresh`: the axis at its beginning.
  TrainingEvaluation(const EvaluationContext* context, const EpochAxis& fresh)
      : context_(*context), stop_(context->stop), fresh_(fresh), axis_(fresh) {}

  // Trains all folds to their ends, or as far as the context lets them go. Errors are those of Report.
  absl::StatusOr<bool> Train();

  // Saves a checkpoint, and makes the result that of a stop.
  bool Cancel();
  bool Fail(const char* reason, std::string message);
  // Fails unless all metrics are finite.
  bool CheckFinite(const study::Measurement& measurement);

  // Trains the folds that run until each has had `goal` passes, or has ended. Sets *least to the passes of the least
  // advanced one that runs; infinite if none does.
  virtual bool Advance(double goal, double* least) = 0;
  // Returns CANCELLED when stopped.
  virtual absl::StatusOr<study::Measurement> Measure(int64_t step) = 0;
  // Returns how the trainings are that pause here.
  virtual absl::StatusOr<study::TrainingReport> ReportPaused() = 0;
  // Returns a checkpoint.
  virtual std::string Save() const = 0;

  const EvaluationContext& context_;
  const base::StopToken& stop_;
  EpochAxis fresh_, axis_;
  EvaluationResult result_;

 private:
  void SaveCheckpoint() const {
    if (context_.save_checkpoint) context_.save_checkpoint(Save());
  }
  // At a pause `result_` has the measurement then, and the caller is still to move on and to save.
  absl::StatusOr<bool> MeasureAt(const EpochAxis::Point& at);
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_TRAINING_EVALUATION_H_
