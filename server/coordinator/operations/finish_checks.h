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

// The value of the study's `metric`, as sent; absent where there is none. INVALID_ARGUMENT names every field that is
// wrong. `trial` is the one that the call ends an attempt of.
absl::StatusOr<std::optional<double>> CheckFinish(const FinishOp& op, const study::Trial& trial,
                                                  const std::string& metric);

// A warning about a trial that completes without having said on its way how far it is, where that would have been used;
// "": none. `reports`: points of the newest attempt's curve.
std::string MissedTarget(const study::Trial& trial, const study::StudySpec& spec, size_t reports);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_OPERATIONS_FINISH_CHECKS_H_
