#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_CURVE_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_CURVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "lib/study/measurement.h"
#include "server/coordinator/batch/context.h"

// Learning curves: the points that an attempt reported.
namespace luthier::coordinator {

// Reads the curve of the newest attempt into `slot.curve`, unless it is there. Errors as Storage.
absl::Status LoadCurve(Context& c, const StudyState& s, TrialSlot& slot);

// Adds a point to the trial's curve: its row, its event, and what designers are told. `slot.curve` must be loaded.
void AddPoint(Context& c, StudyState& s, TrialSlot& slot, const study::Measurement& point);

// Returns equal texts for points of equal content.
std::string PointDigest(const study::Measurement& point);

// Returns the bytes of the point's gradient; 0 without one.
int64_t GradientBytes(const study::Measurement& point);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_CURVE_H_
