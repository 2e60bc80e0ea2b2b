#include "lib/objectives/training_evaluation.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"

namespace luthier::objectives {

absl::StatusOr<bool> TrainingEvaluation::Train() {
  while (true) {
    double least = INFINITY;
    if (!Advance(static_cast<double>(axis_.goal()), &least)) return false;
    if (std::isinf(least)) return true;
    const EpochAxis::Point at = axis_.At(least);
    if (at.pause || (context_.report && at.report)) {
      LUTHIER_ASSIGN_OR_RETURN(const bool goes_on, MeasureAt(at));
      if (!goes_on) return false;
    }
    axis_.MoveOn(at);
    if (at.pause || at.checkpoint) SaveCheckpoint();
    if (at.pause) return false;
  }
}

absl::StatusOr<bool> TrainingEvaluation::MeasureAt(const EpochAxis::Point& at) {
  absl::StatusOr<study::Measurement> point = Measure(at.step);
  if (!point.ok()) return Cancel();  // The point comes first when the trial goes on.
  point->standard_errors.clear();    // Searches read those of final results.
  const bool goes_on = !context_.report || context_.report(*point);
  if (goes_on && !at.pause) return true;
  result_.outcome = goes_on ? EvaluationOutcome::kPaused : EvaluationOutcome::kStopped;
  if (goes_on) {
    LUTHIER_ASSIGN_OR_RETURN(point->training, ReportPaused());
  }
  result_.measurement = *std::move(point);
  return goes_on;
}

bool TrainingEvaluation::Cancel() {
  SaveCheckpoint();
  result_.outcome = EvaluationOutcome::kCancelled;
  return false;
}

bool TrainingEvaluation::Fail(const char* reason, std::string message) {
  result_.outcome = EvaluationOutcome::kFailed;
  result_.failure = study::Failure{study::FailureKind::kConfig, reason, std::move(message)};
  return false;
}

bool TrainingEvaluation::CheckFinite(const study::Measurement& measurement) {
  for (const auto& [name, value] : measurement.metrics) {
    if (!std::isfinite(value)) {
      return Fail(study::failure::kNonFinite, absl::StrCat(name, " is ", study::FormatDouble(value)));
    }
  }
  return true;
}

}  // namespace luthier::objectives
