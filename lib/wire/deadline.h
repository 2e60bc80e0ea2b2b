#ifndef LUTHIER_LIB_WIRE_DEADLINE_H_
#define LUTHIER_LIB_WIRE_DEADLINE_H_

#include <grpc/support/time.h>

#include <algorithm>

#include "absl/time/time.h"

// gRPC's deadlines on the monotonic clock. With std::chrono::system_clock a step of the wall clock between two readings
// would end a call at once, or never.
namespace luthier::wire {

// The deadline of a call, alarm or shutdown that ends `left` from now. At most 100 years.
inline gpr_timespec DeadlineIn(absl::Duration left) {
  const absl::Duration bounded = std::clamp(left, absl::ZeroDuration(), absl::Hours(24 * 365 * 100));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(bounded), GPR_TIMESPAN));
}

// The time until the deadline; below 0 when it is past, InfiniteDuration for a call that has none.
inline absl::Duration TimeUntil(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return absl::InfiniteDuration();
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_DEADLINE_H_
