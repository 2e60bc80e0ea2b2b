#ifndef LUTHIER_LIB_OBJECTIVES_CANCELLATION_H_
#define LUTHIER_LIB_OBJECTIVES_CANCELLATION_H_

#include <atomic>

#include "absl/time/time.h"
#include "lib/base/mutex.h"

namespace luthier::objectives {

// Asks an evaluation to end soon, and wakes it when it waits. Cannot be taken back. Thread-safe.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const { return flag_.load(std::memory_order_acquire); }
  // For loops that look at a flag.
  const std::atomic<bool>& flag() const { return flag_; }
  // Waits for `duration` or until cancelled, whichever is first; returns cancelled().
  bool WaitFor(absl::Duration duration) const;

 private:
  std::atomic<bool> flag_{false};
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CANCELLATION_H_
