#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

inline constexpr int64_t kMaxProposals = 64;  // In one request to a designer.

// Trials that may start running now.
int64_t RoomToRun(const Context& c, const StudyState& s);

// New trials the budget has room for now.
int64_t RoomForNew(const Context& c, const StudyState& s);

// At most `count` trials that wait for a worker and may be granted to `worker` now: those given up by others or
// expired, in order of number, then those that users added. `again` is brought forward to when `worker` may have more,
// since trials are kept for others only for a while.
std::vector<int64_t> EligibleTrials(const Context& c, const StudyState& s, const std::string& worker, int count,
                                    absl::Duration* again);

// True if one more ask may get a trial of the study: now, or from its designer, whom `demand` trials are wanted of.
// Depends on nothing but `s` and the limits.
bool MayServe(const Context& c, const StudyState& s);

// True if the designer can suggest more, as far as is known.
bool MoreMayCome(const StudyState& s);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_
