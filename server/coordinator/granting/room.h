#ifndef LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_
#define LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// Trials that may start running now.
int64_t RoomToRun(const Context& c, const StudyState& s);

// New trials the budget has room for now.
int64_t RoomForNew(const Context& c, const StudyState& s);

// At most `count` trials that wait for a worker and may be granted to `worker` now: those given up by others or
// expired, in order of number, then those that users added.
std::vector<int64_t> EligibleTrials(const Context& c, const StudyState& s, const std::string& worker, int count);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_GRANTING_ROOM_H_
