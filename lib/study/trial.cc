#include "lib/study/trial.h"

namespace luthier::study {

absl::string_view AttemptOutcomeName(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::kRunning:
      return "RUNNING";
    case AttemptOutcome::kComplete:
      return "COMPLETE";
    case AttemptOutcome::kPruned:
      return "PRUNED";
    case AttemptOutcome::kFailed:
      return "FAILED";
    case AttemptOutcome::kReleased:
      return "RELEASED";
    case AttemptOutcome::kExpired:
      return "EXPIRED";
    case AttemptOutcome::kCancelled:
      return "CANCELLED";
  }
  return "";
}

std::string ReporterOf(const Trial& trial) {
  if (!IsFinal(trial.state) || trial.attempts.empty()) return "";
  const Attempt& last = trial.attempts.back();
  const bool reported = last.outcome == AttemptOutcome::kComplete || last.outcome == AttemptOutcome::kPruned ||
                        last.outcome == AttemptOutcome::kFailed;
  return reported ? last.worker : "";
}

}  // namespace luthier::study
