#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

inline constexpr int64_t kMaxProposals = 64;  // Most suggestions in one request to a designer.

// Returns the number of trials that may start running now.
int64_t RoomToRun(const Context& c, const StudyState& s);

// Returns the number of new trials that the budget has room for now.
int64_t RoomForNew(const Context& c, const StudyState& s);

// Returns at most `count` trials that wait for a worker and may be granted to `worker` now: first those that others
// gave up or that expired, in order of number, then those that users added. Trials are kept for other workers for a
// while only: `again` is brought forward to the time at which `worker` may have more.
std::vector<int64_t> EligibleTrials(const Context& c, const StudyState& s, const std::string& worker, int count,
                                    absl::Duration* again);

// True if one more ask may get a trial of the study, now or from its designer, of which `demand` trials are wanted
// already. Depends on `s` and the limits only.
bool MayServe(const Context& c, const StudyState& s);

// True if the designer can suggest more, as far as is known.
bool MoreMayCome(const StudyState& s);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_
