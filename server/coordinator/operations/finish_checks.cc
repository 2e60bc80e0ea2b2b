#include "server/coordinator/operations/finish_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/study/metrics.h"
#include "server/coordinator/messages/measurements.h"

namespace luthier::coordinator {
namespace {

using base::Quote;

void CheckPause(const study::Trial& trial, const CompleteContent& content, base::Violations* violations) {
  const int64_t target = trial.target();
  if (content.pruned) violations->Add("paused", "a trial is either paused or pruned");
  if (target == 0) {
    violations->Add("paused", "this trial has no target to pause at; complete it");
  } else if (content.measurement.step < target) {
    violations->Add("measurement.step", absl::StrCat(content.measurement.step, " is below the trial's target, step ",
                                                     target, "; pause there, or release the trial with a checkpoint"));
  }
}

// Checks a Complete, and returns the value of the first objective.
std::optional<double> CheckComplete(const CompleteContent& content, const study::Trial& trial,
                                    const study::StudySpec& spec, base::Violations* violations) {
  violations->AddAll("", CheckMeasurement(content.measurement, "measurement"));
  const std::string lacks = content.pruned ? "" : LacksMetrics(spec, content.measurement);
  if (!lacks.empty()) violations->Add("measurement.metrics", lacks);
  if (content.paused) CheckPause(trial, content, violations);
  const auto entry = content.measurement.metrics.find(spec.metric.name);
  if (entry == content.measurement.metrics.end()) return std::nullopt;
  return entry->second;
}

bool IsFailureReason(const std::string& reason) {
  return !reason.empty() && reason.size() <= 64 && reason[0] >= 'A' && reason[0] <= 'Z' &&
         reason.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

}  // namespace

absl::StatusOr<std::optional<double>> CheckFinish(const FinishOp& op, const study::Trial& trial,
                                                  const study::StudySpec& spec) {
  base::Violations violations;
  violations.AddAll("", CheckCheckpoint(op.checkpoint, op.checkpoint_step));
  violations.AddAll("", CheckStartStep(op.start_step));
  std::optional<double> value;
  if (const auto* content = std::get_if<CompleteContent>(&op.content)) {
    value = CheckComplete(*content, trial, spec, &violations);
  }
  const auto* failure = std::get_if<study::Failure>(&op.content);
  if (failure != nullptr && !IsFailureReason(failure->reason)) {
    violations.Add("failure.reason", absl::StrCat(Quote(failure->reason), " is not of the form [A-Z][A-Z0-9_]{0,63}"));
  }
  if (!violations.empty()) return violations.ToStatus();
  return value;
}

std::string LacksMetrics(const study::StudySpec& spec, const study::Measurement& measurement) {
  std::vector<std::string> missing = study::MissingMetrics(spec, measurement);
  if (missing.empty()) return "";
  for (std::string& name : missing) name = Quote(name);
  std::vector<std::string> names;
  for (const auto& [name, value] : measurement.metrics) names.push_back(name);
  return absl::StrCat("lacks the study's ", missing.size() == 1 ? "metric " : "metrics ", absl::StrJoin(missing, ", "),
                      names.empty() ? "" : "; it has ", absl::StrJoin(names, ", "));
}

std::string NonFiniteMetrics(const study::StudySpec& spec, const study::Measurement& measurement) {
  std::vector<std::string> wrong;
  for (const study::MetricSpec& metric : study::MetricsOf(spec)) {
    const auto value = measurement.metrics.find(metric.name);
    if (value == measurement.metrics.end() || std::isfinite(value->second)) continue;
    wrong.push_back(absl::StrCat(metric.name, " is ", study::FormatDouble(value->second)));
  }
  return absl::StrJoin(wrong, ", ");
}

std::string MissedTarget(const study::Trial& trial, const study::StudySpec& spec, size_t reports) {
  constexpr char kSilent[] = ": the objective has to report `step`";
  const int64_t last = trial.attempts.back().last_step;
  if (reports == 0 && last == 0 && spec.resource) {
    const bool earlier = std::any_of(trial.attempts.begin(), trial.attempts.end(),
                                     [](const study::Attempt& attempt) { return attempt.last_step > 0; });
    return absl::StrCat(earlier ? "this attempt reported no step of the training, as an earlier one did"
                                : "no step of the training was ever reported",
                        ", so it could not be paused or stopped", kSilent);
  }
  if (reports == 0 && spec.stopping) {
    return absl::StrCat("nothing was reported on the way, so no stopping rule could look at it", kSilent);
  }
  const bool to_pause = spec.resource && trial.target() > 0 && trial.target() < spec.resource->max;
  if (!to_pause || last <= trial.target()) return "";
  return absl::StrCat("it was to pause at step ", trial.target(), " and trained on to step ", last);
}

}  // namespace luthier::coordinator
