// Core: learning curves.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/core.h"
#include "server/coordinator/messages/measurements.h"

namespace luthier::coordinator {
namespace {

using base::MakeError;
using storage::EventType;
using storage::TrialRecord;

int64_t GradientBytes(const study::Measurement& m) {
  if (!m.gradient) return 0;
  return static_cast<int64_t>(sizeof(double) * (m.gradient->values.size() + m.gradient->direction.size()));
}

std::string PointDigest(const study::Measurement& m) {
  FinishOp op;
  op.content = CompleteContent{m, false, ""};
  return DigestOf(op);
}

}  // namespace

absl::Status Core::LoadCurve(const StudyState& s, TrialSlot& slot) {
  const study::Trial& trial = slot.record->trial;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<study::Measurement> stored,
                           storage_->ListMeasurements(s.record.key, trial.number, trial.attempts.back().number));
  slot.curve = std::make_unique<Curve>();
  for (const study::Measurement& m : stored) {
    slot.curve->digests.emplace(m.step, PointDigest(m));
    slot.curve->gradient_bytes += GradientBytes(m);
  }
  return absl::OkStatus();
}

void Core::Run(ReportOp op) {
  const absl::StatusOr<Found> found = FindTrial(op.id, op.number);
  if (!found.ok()) return Answer<ReportReply>(op.done, found.status());
  StudyState& s = *found->study;
  TrialSlot& slot = *found->slot;
  TrialRecord& record = *slot.record;
  if (StoppedUnder(record, op.token)) {
    return Answer<ReportReply>(op.done, ReportReply{Directive::kStop, record.finish_seq});
  }
  if (absl::Status holder = CheckHolder(slot, op.token); !holder.ok()) {
    return Answer<ReportReply>(op.done, std::move(holder));
  }
  base::Violations violations;
  if (op.measurements.empty()) violations.Add("measurements", "is empty");
  std::set<int64_t> steps;
  for (size_t i = 0; i < op.measurements.size(); ++i) {
    const study::Measurement& m = op.measurements[i];
    const std::string at = absl::StrCat("measurements[", i, "]");
    violations.AddAll("", CheckMeasurement(m, at));
    if (m.metrics.empty()) violations.Add(at + ".metrics", "is empty; give at least one");
    if (!steps.insert(m.step).second) violations.Add(at + ".step", absl::StrCat(m.step, " is there twice"));
    if (m.gradient) {
      violations.AddAll(at + ".gradient",
                        ValidateGradient(*m.gradient, static_cast<int>(s.spec->space.differentiable().size())));
    }
  }
  violations.AddAll("", CheckCheckpoint(op.checkpoint));
  violations.AddAll("", CheckStartStep(op.start_step));
  if (!violations.empty()) return Answer<ReportReply>(op.done, violations.ToStatus());

  if (!slot.curve) {
    if (absl::Status loaded = LoadCurve(s, slot); !loaded.ok()) return Answer<ReportReply>(op.done, std::move(loaded));
  }
  Curve& curve = *slot.curve;
  std::vector<const study::Measurement*> fresh;
  int64_t gradient_bytes = curve.gradient_bytes;  // With the fresh points.
  for (const study::Measurement& m : op.measurements) {
    const auto known = curve.digests.find(m.step);
    if (known == curve.digests.end()) {
      fresh.push_back(&m);
      gradient_bytes += GradientBytes(m);
    } else if (known->second != PointDigest(m)) {
      return Answer<ReportReply>(
          op.done,
          MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kConflictingReport,
                    absl::StrCat("step ", m.step, " of trial ", op.number, " was reported with other content")));
    }
  }
  const Limits& limits = options_.limits;
  if (static_cast<int64_t>(curve.digests.size() + fresh.size()) > limits.points) {
    return Answer<ReportReply>(op.done,
                               LimitExceeded("points", limits.points,
                                             absl::StrCat("trial ", op.number, " would have more than ", limits.points,
                                                          " intermediate points; report less often")));
  }
  if (gradient_bytes > std::max(limits.gradient_bytes, curve.gradient_bytes)) {
    return Answer<ReportReply>(
        op.done,
        LimitExceeded("gradient_bytes", limits.gradient_bytes,
                      absl::StrCat("trial ", op.number, " would have ", gradient_bytes,
                                   " bytes of gradients along its learning curve, and ", limits.gradient_bytes,
                                   " is the most; report gradients less often, or only with the final result")));
  }
  for (const study::Measurement* m : fresh) AddPoint(s, slot, *m);
  NoteTraining(s, slot, op.start_step, *steps.begin(), *steps.rbegin());
  const study::Attempt& attempt = record.trial.attempts.back();
  if (!op.checkpoint.empty() && op.checkpoint != record.trial.checkpoint) {
    record.trial.checkpoint = op.checkpoint;
    record.trial.checkpoint_step = attempt.last_step;
    MarkDirty(s, record);
  }
  // In the order in which training came by them.
  std::sort(fresh.begin(), fresh.end(), [](const auto* a, const auto* b) { return a->step < b->step; });
  for (const study::Measurement* m : s.stopper ? fresh : std::vector<const study::Measurement*>()) {
    const auto value = m->metrics.find(s.spec->metric.name);
    if (value == m->metrics.end()) continue;
    s.stopper->Report(op.number, m->step, value->second);
    const stopping::Decision decision = s.stopper->Decide(op.number, m->step);
    if (decision.verdict != stopping::Verdict::kStop) continue;
    StopTrial(s, slot, *m, decision.reason);
    return Answer<ReportReply>(op.done, ReportReply{Directive::kStop, record.finish_seq});
  }
  // A report proves that its holder lives.
  leases_->Renew({op.token}, now_, /*take_back=*/true);
  ClearExpired(s, op.number);
  s.next_expiry_check = std::min(s.next_expiry_check, now_ + s.spec->lease.ttl);
  ReportReply reply{Directive::kContinue, s.record.update_seq};
  if (s.spec->resource) {
    const stopping::Decision decision = stopping::AtTarget(*s.spec->resource, record.trial.target(), attempt.last_step);
    if (decision.verdict == stopping::Verdict::kPause) reply.directive = Directive::kPause;
  }
  Answer<ReportReply>(op.done, reply);
}

void Core::AddPoint(StudyState& s, TrialSlot& slot, const study::Measurement& m) {
  TrialRecord& record = *slot.record;
  slot.curve->digests.emplace(m.step, PointDigest(m));
  slot.curve->gradient_bytes += GradientBytes(m);
  storage::MeasurementRecord point;
  point.study = s.record.key;
  point.trial = record.trial.number;
  point.attempt = record.trial.attempts.back().number;
  point.measurement = m;
  measurements_.push_back(std::move(point));
  storage::Event& event = AddEvent(s, EventType::kMeasurement, &record);
  event.actor = record.trial.attempts.back().worker;
  event.detail = StepDetail(m.step, MetricsText(m));
  const auto value = m.metrics.find(s.spec->metric.name);
  if (value == m.metrics.end()) return;
  event.value = value->second;
  if (!NeedsCurves(*s.spec)) return;
  PushUpdate(s, HistoryUpdate::Kind::kReported, record.trial.number,
             [&](HistoryUpdate& update) { update.point = {m.step, value->second}; });
}

}  // namespace luthier::coordinator
