#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_GRANT_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_GRANT_H_

#include <cstdint>
#include <string>

#include "lib/study/trial.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Stores a new PENDING trial under the next number, which it returns. `type`: TRIAL_SUGGESTED or TRIAL_ENQUEUED.
int64_t StoreTrial(Context& c, StudyState& s, study::Trial trial, storage::EventType type);

// Starts an attempt of the PENDING trial at `worker`, or of the RUNNING trial whose lease expired.
Grant GrantTrial(Context& c, StudyState& s, int64_t number, const std::string& worker);

// The grant by which the holder of `token` is told about the trial `record`.
Grant DescribeGrant(const StudyState& s, const storage::TrialRecord& record, const std::string& token);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_GRANT_H_
