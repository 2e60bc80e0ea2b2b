#ifndef LUTHIER_SERVER_SERVICE_LOOKUP_H_
#define LUTHIER_SERVER_SERVICE_LOOKUP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "luthier/v1/trial.pb.h"
#include "server/storage/storage.h"

// Finds studies and trials that calls name. Errors: NOT_FOUND naming what does not exist; those of Storage.
namespace luthier::service {

absl::StatusOr<storage::StudyRecord> FindStudy(storage::Storage* storage, const std::string& id);
// A deleted trial is not found.
absl::StatusOr<storage::TrialRecord> FindTrial(storage::Storage* storage, const storage::StudyRecord& study,
                                               int64_t number);
// Returns the trial as callers see it, without its learning curve.
absl::StatusOr<v1::Trial> ReadTrial(storage::Storage* storage, const storage::StudyRecord& study,
                                    const storage::TrialRecord& trial);

// Returns whether the trial's final measurement meets the bounds of the study's metrics; absent without bounds, and
// without a measurement that has all metrics.
std::optional<bool> FeasibleOf(const study::StudySpec& spec, const study::Trial& trial);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_LOOKUP_H_
