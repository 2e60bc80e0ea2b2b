#ifndef LUTHIER_SERVER_COORDINATOR_OPERATIONS_FINISH_CHECKS_H_
#define LUTHIER_SERVER_COORDINATOR_OPERATIONS_FINISH_CHECKS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "server/coordinator/messages/operations.h"

// Checks of a Complete, Fail or Release before it has an effect.
namespace luthier::coordinator {

// Returns the value of the study's objective as it was sent, of several the first one's; absent if it was not.
// INVALID_ARGUMENT names every field that is wrong. `trial` is the one whose attempt the call ends.
absl::StatusOr<std::optional<double>> CheckFinish(const FinishOp& op, const study::Trial& trial,
                                                  const study::StudySpec& spec);

// Says which of the study's metrics the measurement lacks; "" if it has all.
std::string LacksMetrics(const study::StudySpec& spec, const study::Measurement& measurement);

// Says which of the study's metrics are not finite in a final measurement: "loss is NaN"; "" if all are. Metrics
// that it lacks are not looked at.
std::string NonFiniteMetrics(const study::StudySpec& spec, const study::Measurement& measurement);

// Returns a warning if a trial completes without the reports that would have let it pause or be stopped, or beyond its
// target; else "". `reports` is the number of points of the newest attempt's curve.
std::string MissedTarget(const study::Trial& trial, const study::StudySpec& spec, size_t reports);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_OPERATIONS_FINISH_CHECKS_H_
