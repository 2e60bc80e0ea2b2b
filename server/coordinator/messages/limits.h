#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_LIMITS_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/study/study_spec.h"

namespace luthier::coordinator {

// Limits on what the coordinator keeps of anything that callers add to. A call that would exceed a limit is refused as
// a whole, RESOURCE_EXHAUSTED LIMIT_EXCEEDED; metadata["limit"] has the name of the field below. docs/reference/api.md
// lists these and the limits on single values, which are checked where a request is read.
struct Limits {
  // Unexpired leases of one worker. Also the most one ask may want and one heartbeat may list. A worker that takes
  // expired leases back may exceed it by itself, since it was computing anyway.
  int leases_per_worker = 64;
  // Running trials of a study without a smaller max_parallel; asks beyond it wait.
  int64_t leases_per_study = study::kMaxParallel;
  // Studies, not counting deleted ones.
  int64_t studies = 100'000;
  // Deleted studies of one project that can be brought back. The one that was deleted first goes when there are more.
  int64_t deleted_studies = 1'000;
  // Changes of the ranges of one study.
  int64_t range_changes = 20;
  // Calls that add parameters to a study's open space.
  int64_t declarations = 200;
  // Names of pools of workers that asks have used since the start.
  int pools = 1000;
  // Bytes of a spec whose space grows.
  int64_t open_space_bytes = int64_t{1} << 20;
  // Points of the learning curve of one attempt: a retry starts its own.
  int64_t points = 10'000;
  // Bytes of the trials that one call may add, as its reply has them, with defaults filled in. The reply must fit a
  // message, so a larger call is refused before anything is stored.
  int64_t enqueued_bytes = int64_t{3} << 20;
  // Bytes of the gradients along that curve; the gradient of the final result is not counted.
  int64_t gradient_bytes = int64_t{16} << 20;
};

// RESOURCE_EXHAUSTED LIMIT_EXCEEDED with `limit` and its value as metadata.
absl::Status LimitExceeded(absl::string_view limit, int64_t value, absl::string_view message);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_LIMITS_H_
