#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_MEASUREMENTS_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_MEASUREMENTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lib/study/measurement.h"

// Checks of workers' reports that need no state.
namespace luthier::coordinator {

// Checks everything but the gradient, the training, and the presence of the study's metric. INVALID_ARGUMENT with
// fields below `at`.
absl::Status CheckMeasurement(const study::Measurement& m, const std::string& at);
// Checks `training` and `gradient_seconds`. Fields are relative to the measurement.
absl::Status CheckTraining(const study::Measurement& m);
absl::Status CheckCheckpoint(const std::string& checkpoint, std::optional<int64_t> step);
absl::Status CheckStartStep(std::optional<int64_t> step);

// Returns "accuracy=0.9 loss=0.25", for people.
std::string MetricsText(const study::Measurement& m);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_MEASUREMENTS_H_
