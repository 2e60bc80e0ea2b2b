#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_GRANT_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_GRANT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "lib/study/trial.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Stores a new PENDING trial under the next number, which it returns. `type`: TRIAL_SUGGESTED or TRIAL_ENQUEUED.
int64_t StoreTrial(Context& c, StudyState& s, study::Trial trial, storage::EventType type);

// Starts an attempt of the PENDING trial at `worker`, or of the RUNNING trial whose lease expired. `request_id` is that
// of the ask.
Grant GrantTrial(Context& c, StudyState& s, int64_t number, const std::string& worker, const std::string& request_id);

// Returns the grant that tells the holder of `token` about the trial, whose newest attempt is its own. `use` is
// search::GradientUseOf(*spec).
Grant DescribeGrant(const std::string& study_id, std::shared_ptr<const study::StudySpec> spec, study::GradientUse use,
                    study::Trial trial, const std::string& token);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_GRANT_H_
