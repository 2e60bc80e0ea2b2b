#ifndef LUTHIER_LIB_STUDY_GRADIENTS_H_
#define LUTHIER_LIB_STUDY_GRADIENTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lib/study/measurement.h"
#include "lib/study/parameters.h"
#include "lib/study/study_spec.h"

// Derivatives of all metrics of a measurement: Measurement::gradient is that of the study's metric, which of several
// objectives is the first, and Measurement::gradients has those of others.
namespace luthier::study {

// Brings `gradients` into the form in which they are kept: by the order of the space (FromNames), of metrics that the
// study has, and that of the study's metric in `gradient`, which must be in its form already. Those that can't be kept
// are left out. Returns INVALID_ARGUMENT with field paths relative to the measurement for those that are malformed, and
// where `gradient` and an entry of `gradients` differ on the study's metric: then both are left out.
absl::Status TakeGradients(const StudySpec& spec, const Parameters& setting, Measurement* measurement);

// Returns the derivatives of each of the study's metrics, in order; empty if there are none, or the study has one
// metric.
std::vector<std::optional<Gradient>> GradientsOf(const StudySpec& spec, const Measurement& measurement);

// Leaves out all derivatives.
void ClearGradients(Measurement* measurement);

// Bytes of all derivatives.
int64_t GradientBytes(const Measurement& measurement);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_GRADIENTS_H_
