#include "server/coordinator/trials/curve.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/status_macros.h"
#include "server/coordinator/batch/bytes.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/messages/digest.h"
#include "server/coordinator/messages/measurements.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/coordinator/trials/text.h"

namespace luthier::coordinator {
namespace {

// Adds a point to the counts of the curve.
void Count(const StudyState& s, const study::Measurement& m, Curve& curve) {
  curve.digests.emplace(m.step, PointDigest(m));
  curve.gradient_bytes += GradientBytes(m);
  const auto value = m.metrics.find(s.spec->metric.name);
  if (value == m.metrics.end() || !std::isfinite(value->second)) return;
  if (curve.last && curve.last->step > m.step) return;
  curve.last = m;
  curve.last->gradient.reset();
}

}  // namespace

absl::Status LoadCurve(Context& c, const StudyState& s, TrialSlot& slot) {
  if (slot.curve) return absl::OkStatus();
  const study::Trial& trial = slot.record->trial;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<study::Measurement> stored,
                           c.storage->ListMeasurements(s.record.key, trial.number, trial.attempts.back().number));
  slot.curve = std::make_unique<Curve>();
  for (const study::Measurement& m : stored) Count(s, m, *slot.curve);
  return absl::OkStatus();
}

void AddPoint(Context& c, StudyState& s, TrialSlot& slot, const study::Measurement& m) {
  storage::TrialRecord& record = *slot.record;
  Count(s, m, *slot.curve);
  AddBytes(c, s, BytesOf(m));
  storage::MeasurementRecord point;
  point.study = s.record.key;
  point.trial = record.trial.number;
  point.attempt = record.trial.attempts.back().number;
  point.measurement = m;
  c.batch.measurements.push_back(std::move(point));
  storage::Event& event = AddEvent(c, s, storage::EventType::kMeasurement, &record);
  event.actor = record.trial.attempts.back().worker;
  event.step = m.step;
  event.detail = StepDetail(m.step, MetricsText(m));
  const auto value = m.metrics.find(s.spec->metric.name);
  if (value == m.metrics.end()) return;
  event.value = value->second;
  if (!NeedsCurves(*s.spec)) return;
  PushUpdate(c, s, HistoryUpdate::Kind::kReported, record.trial.number,
             [&](HistoryUpdate& update) { update.point = {m.step, value->second}; });
}

std::string PointDigest(const study::Measurement& point) {
  FinishOp op;
  op.content = CompleteContent{point, false, ""};
  return DigestOf(op);
}

int64_t GradientBytes(const study::Measurement& point) {
  if (!point.gradient) return 0;
  return static_cast<int64_t>(sizeof(double) * (point.gradient->values.size() + point.gradient->direction.size()));
}

}  // namespace luthier::coordinator
