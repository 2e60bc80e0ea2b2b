#ifndef LUTHIER_WORKER_RUNTIME_OPTIONS_H_
#define LUTHIER_WORKER_RUNTIME_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace luthier::worker {

inline constexpr int kMaxSlots = 64;  // One heartbeat lists all leases.

struct RuntimeOptions {
  std::string worker;           // [a-z0-9][a-z0-9_.-]{0,63}, unique among the workers of a coordinator.
  std::string study;            // Id; empty: any study.
  int slots = 1;                // Trials at once, 1 … kMaxSlots.
  bool exit_when_done = false;  // Run returns when the study (which must be named) is done.
  // Run returns when it has held no trial for so long and the coordinator's newest answer was that there is none.
  absl::Duration exit_when_idle = absl::InfiniteDuration();
  int64_t max_trials = 0;                             // Run returns when so many trials have ended here; 0: no limit.
  absl::Duration drain_timeout = absl::Seconds(2);    // Time from Drain until running trials are told to stop.
  absl::Duration delivery_timeout = absl::Hours(24);  // A result that can't be sent for so long stays in the spool.
  absl::Duration drain_delivery_timeout = absl::Seconds(5);  // The same while draining.
  uint64_t seed = 0;  // Seed of request ids and jitter: must differ from process to process.
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_OPTIONS_H_
