#ifndef LUTHIER_SERVER_METRICS_SCALE_H_
#define LUTHIER_SERVER_METRICS_SCALE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/metrics/metrics.h"

namespace luthier::metrics {

// Returns the answer to GET /scale?pool=POOL&project=PROJECT for autoscalers: {"pool": "gpus", "wanted_slots": 3,
// "running_slots": 5, "slots": 8}, where `slots` is the sum: the slots that all workers of the pool together could keep
// busy. `query` is what follows the '?'. Without `pool` it is the pool "default"; without `project` all projects count.
// INVALID_ARGUMENT BAD_FIELD for a name that no pool or project has, another parameter, and one that is there twice.
absl::StatusOr<std::string> ScaleAnswer(const Metrics& metrics, absl::string_view query);

}  // namespace luthier::metrics

#endif  // LUTHIER_SERVER_METRICS_SCALE_H_
