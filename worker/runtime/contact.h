#ifndef LUTHIER_WORKER_RUNTIME_CONTACT_H_
#define LUTHIER_WORKER_RUNTIME_CONTACT_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "worker/runtime/options.h"
#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// Decides how long, and when, calls to the coordinator are repeated: it knows whether the coordinator answers, and
// whether this worker drains. Thread-safe.
class Contact {
 public:
  // `options` and `clock` must outlive it. `hurried` is called after each reason to repeat waiting calls at once,
  // without a lock.
  Contact(const RuntimeOptions* options, WaitClock* clock, std::function<void()> hurried)
      : options_(*options), clock_(clock), hurried_(std::move(hurried)) {}

  // Learns from the status of a call. Logs the first failure, and the first success after it.
  void Note(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Begins the drain; false if it has begun before.
  bool Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  bool draining() const { return drain_deadline() < absl::InfiniteDuration(); }
  // Returns when running trials are told to stop; InfiniteDuration: it does not drain.
  absl::Duration drain_deadline() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts the reasons to repeat waiting calls at once: the drain, and the coordinator's return.
  uint64_t hurry() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits before a call that began at `start` is repeated. False when it is time to give up. Returns early if a reason
  // to hurry came after hurry() had returned `hurry`. That must be from before the try that failed, so that no reason
  // is missed that came during it.
  bool WaitToRetry(absl::Duration start, uint64_t hurry, absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Duration GiveUpTime(absl::Duration start) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);

  const RuntimeOptions& options_;
  WaitClock* const clock_;
  const std::function<void()> hurried_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;  // Signalled with `hurry_`.
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration drain_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  uint64_t hurry_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_CONTACT_H_
