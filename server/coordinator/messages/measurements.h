#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_MEASUREMENTS_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_MEASUREMENTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lib/study/measurement.h"

// Checks of what workers report, as far as it can be judged by itself.
namespace luthier::coordinator {

// All but the gradient, what is said about the training, and whether the study's metric is there. INVALID_ARGUMENT with
// fields below `at`.
absl::Status CheckMeasurement(const study::Measurement& m, const std::string& at);
// `training` and `gradient_seconds`, fields relative to the measurement.
absl::Status CheckTraining(const study::Measurement& m);
absl::Status CheckCheckpoint(const std::string& checkpoint, std::optional<int64_t> step);
absl::Status CheckStartStep(std::optional<int64_t> step);

// "accuracy=0.9 loss=0.25", for people.
std::string MetricsText(const study::Measurement& m);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_MEASUREMENTS_H_
