#include "lib/study/trial.h"

#include <algorithm>

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
    case AttemptOutcome::kPaused:
      return "PAUSED";
  }
  return "";
}

Parameters SuggestedParameters(const Trial& trial) {
  Parameters suggested = trial.parameters;
  for (const std::string& name : trial.declared) suggested.erase(name);
  for (const auto& [name, value] : trial.unused) {
    if (trial.declared.count(name) == 0) suggested.emplace(name, value);
  }
  return suggested;
}

int AttemptsUsed(const Trial& trial) {
  const auto last_pause = std::find_if(trial.attempts.rbegin(), trial.attempts.rend(), [](const Attempt& attempt) {
    return attempt.outcome == AttemptOutcome::kPaused;
  });
  return static_cast<int>(last_pause - trial.attempts.rbegin()) - trial.releases;
}

int64_t ResourceSpent(const Trial& trial) {
  constexpr int64_t kMost = 9'000'000'000'000;
  int64_t spent = 0;
  for (const Attempt& attempt : trial.attempts) {
    if (attempt.start_step < 0 || attempt.last_step <= attempt.start_step) continue;
    spent = std::min(kMost, spent + std::min(kMost, attempt.last_step - attempt.start_step));
  }
  return spent;
}

std::string ReporterOf(const Trial& trial) {
  if (!IsFinal(trial.state) || trial.attempts.empty()) return "";
  const Attempt& last = trial.attempts.back();
  const bool reported = last.outcome == AttemptOutcome::kComplete || last.outcome == AttemptOutcome::kPruned ||
                        last.outcome == AttemptOutcome::kFailed;
  return reported ? last.worker : "";
}

}  // namespace luthier::study
