#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/gradients.h"
#include "lib/study/metrics.h"
#include "server/coordinator/messages/measurements.h"
#include "server/coordinator/operations/finish_checks.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/counts.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/holder.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {
namespace {

using storage::TrialRecord;

using Points = std::vector<const study::Measurement*>;

bool HasSomeMetric(const study::StudySpec& spec, const study::Measurement& m) {
  const auto metrics = study::MetricsOf(spec);
  return std::any_of(metrics.begin(), metrics.end(),
                     [&](const auto& metric) { return m.metrics.contains(metric.name); });
}

// Checks everything of the report that needs no state. INVALID_ARGUMENT names every field that is wrong.
absl::Status Check(const ReportOp& op, const study::StudySpec& spec) {
  base::Violations violations;
  if (op.measurements.empty()) violations.Add("measurements", "is empty");
  std::set<int64_t> steps;
  for (size_t i = 0; i < op.measurements.size(); ++i) {
    const study::Measurement& m = op.measurements[i];
    const std::string at = absl::StrCat("measurements[", i, "]");
    violations.AddAll("", CheckMeasurement(m, at));
    violations.AddAll(at, CheckTraining(m));
    if (m.metrics.empty()) violations.Add(at + ".metrics", "is empty; give at least one");
    // Trials are compared by all objectives. A point of other quantities alone is only logged.
    if (study::ObjectiveCount(spec) > 1 && HasSomeMetric(spec, m)) {
      const std::string lacks = LacksMetrics(spec, m);
      if (!lacks.empty()) {
        violations.Add(at + ".metrics", absl::StrCat(lacks,
                                                     "; with several objectives a report at a step has each, by "
                                                     "which trials are compared"));
      }
    }
    if (!steps.insert(m.step).second) violations.Add(at + ".step", absl::StrCat(m.step, " is there twice"));
    if (m.gradient) {
      violations.AddAll(at + ".gradient",
                        ValidateGradient(*m.gradient, static_cast<int>(spec.space.differentiable().size())));
    }
  }
  violations.AddAll("", CheckCheckpoint(op.checkpoint, op.checkpoint_step));
  violations.AddAll("", CheckStartStep(op.start_step));
  return violations.ToStatus();
}

// Returns the points that are not on the curve yet. FAILED_PRECONDITION CONFLICTING_REPORT if the curve has other
// content for a step.
absl::StatusOr<Points> FreshPoints(const ReportOp& op, const Curve& curve) {
  Points fresh;
  for (const study::Measurement& m : op.measurements) {
    const auto known = curve.digests.find(m.step);
    if (known == curve.digests.end()) {
      fresh.push_back(&m);
    } else if (known->second != PointDigest(m)) {
      return base::MakeError(
          absl::StatusCode::kFailedPrecondition, base::reason::kConflictingReport,
          absl::StrCat("step ", m.step, " of trial ", op.number, " was reported with other content"));
    }
  }
  return fresh;
}

// Checks that the curve has room for the points.
absl::Status CheckLimits(const Limits& limits, int64_t number, const Curve& curve, const Points& fresh) {
  if (static_cast<int64_t>(curve.digests.size() + fresh.size()) > limits.points) {
    return LimitExceeded("points", limits.points,
                         absl::StrCat("trial ", number, " would have more than ", limits.points,
                                      " intermediate points; report less often"));
  }
  int64_t gradient_bytes = curve.gradient_bytes;
  for (const study::Measurement* m : fresh) gradient_bytes += study::GradientBytes(*m);
  if (gradient_bytes <= std::max(limits.gradient_bytes, curve.gradient_bytes)) return absl::OkStatus();
  return LimitExceeded("gradient_bytes", limits.gradient_bytes,
                       absl::StrCat("trial ", number, " would have ", gradient_bytes,
                                    " bytes of gradients along its learning curve, and ", limits.gradient_bytes,
                                    " is the most; report gradients less often, or only with the final result"));
}

void Store(Study& s, TrialSlot& slot, const ReportOp& op, const Points& fresh) {
  for (const study::Measurement* m : fresh) s.AddPoint(slot, *m);
  const auto [first, last] = std::minmax_element(op.measurements.begin(), op.measurements.end(),
                                                 [](const auto& a, const auto& b) { return a.step < b.step; });
  s.NoteTraining(slot, op.start_step, first->step, last->step);
  TrialRecord& record = *slot.record;
  const int64_t reported = s.spec()->resource ? record.trial.attempts.back().last_step : last->step;
  if (NoteCheckpoint(op.checkpoint, op.checkpoint_step, reported, &record.trial)) s.MarkDirty(record);
}

// Asks the study's rule about each point, in order of step. True: the trial was stopped.
bool StoppedByRule(Study& s, TrialSlot& slot, Points fresh) {
  std::sort(fresh.begin(), fresh.end(), [](const auto* a, const auto* b) { return a->step < b->step; });
  for (const study::Measurement* m : fresh) {
    if (!m->metrics.contains(s.spec()->metric.name)) continue;
    const std::optional<std::string> why = s.AskRule(slot.record->trial.number, *m);
    if (!why) continue;
    s.StopTrial(slot, *m, *why);
    return true;
  }
  return false;
}

// The trial goes on: a report proves that its holder lives.
study::Directive GoOn(Context& c, Study& s, const TrialRecord& record, const std::string& token) {
  c.leases->Renew({token}, c.batch.now, /*take_back=*/true);
  s.KeepLease(record.trial.number);
  if (record.trial.stop_requested) return study::Directive::kFinish;
  if (!s.spec()->resource) return study::Directive::kContinue;
  const int64_t step = record.trial.attempts.back().last_step;
  const stopping::Decision decision = stopping::AtTarget(*s.spec()->resource, record.trial.target(), step);
  return decision.verdict == stopping::Verdict::kPause ? study::Directive::kPause : study::Directive::kContinue;
}

// Converts gradients to the form in which they are kept. INVALID_ARGUMENT for those that can't be converted.
absl::Status TakeNames(const study::StudySpec& spec, const study::Parameters& setting, ReportOp* op) {
  base::Violations violations;
  for (size_t i = 0; i < op->measurements.size(); ++i) {
    const std::string at = absl::StrCat("measurements[", i, "]");
    std::optional<study::Gradient>& gradient = op->measurements[i].gradient;
    if (gradient && !gradient->by_name.empty()) {
      absl::StatusOr<study::Gradient> known = study::FromNames(spec.space, setting, *gradient);
      violations.AddAll(at + ".gradient", known.status());
      if (known.ok()) gradient = *std::move(known);
    }
    violations.AddAll(at, study::TakeGradients(spec, setting, &op->measurements[i]));
  }
  return violations.ToStatus();
}

absl::StatusOr<ReportReply> Report(Context& c, ReportOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(const FoundTrial found, FindTrial(c, op.id, op.number));
  Study& s = *found.study;
  TrialSlot& slot = *found.slot;
  const TrialRecord& record = *slot.record;
  if (StoppedUnder(record, op.token)) return ReportReply{study::Directive::kStop, record.finish_seq};
  LUTHIER_RETURN_IF_ERROR(CheckHolder(slot, op.token));
  LUTHIER_RETURN_IF_ERROR(TakeNames(*s.spec(), record.trial.parameters, &op));
  LUTHIER_RETURN_IF_ERROR(Check(op, *s.spec()));
  LUTHIER_RETURN_IF_ERROR(s.LoadCurve(slot));
  LUTHIER_ASSIGN_OR_RETURN(const Points fresh, FreshPoints(op, *slot.curve));
  LUTHIER_RETURN_IF_ERROR(CheckLimits(c.options.limits, op.number, *slot.curve, fresh));
  Store(s, slot, op, fresh);
  if (StoppedByRule(s, slot, fresh)) return ReportReply{study::Directive::kStop, record.finish_seq};
  const study::Directive directive = GoOn(c, s, record, op.token);
  return ReportReply{directive, s.record().update_seq};
}

}  // namespace

void Run(Context& c, ReportOp op) {
  Answer<ReportReply>(c, op.done, Report(c, op));
}

}  // namespace luthier::coordinator
