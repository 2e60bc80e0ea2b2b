#ifndef LUTHIER_SERVER_SERVICE_MEMORY_GUARD_H_
#define LUTHIER_SERVER_SERVICE_MEMORY_GUARD_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"

namespace luthier::service {

// Keeps the process within its memory: what would bring more work is refused first, what ends work is taken a little
// longer. Thread-safe.
class MemoryGuard {
 public:
  struct Options {
    int64_t limit = 0;  // Bytes; 0: none.
    // Resident bytes of the process. Tests bring their own.
    std::function<int64_t()> used = ResidentBytes;
    // Gives freed memory back to the system. Called when the limit is reached, at most once a second.
    std::function<void()> give_back = GiveBack;
  };
  // `clock` must outlive it.
  MemoryGuard(Options options, const base::Clock* clock);

  // Asks, creates and reads: RESOURCE_EXHAUSTED MEMORY with a delay from the limit on.
  absl::Status AdmitWork() const { return Admit(options_.limit); }
  // Results, heartbeats, and calls that end studies or trials: from 1.1 times the limit on.
  absl::Status AdmitResult() const { return Admit(options_.limit + options_.limit / 10); }

  static int64_t ResidentBytes();
  static void GiveBack();

 private:
  absl::Status Admit(int64_t limit) const;
  // Bytes in use, as of at most 10 ms ago.
  int64_t Used() const;

  const Options options_;
  const base::Clock* const clock_;
  mutable std::atomic<int64_t> used_{0};
  mutable std::atomic<int64_t> next_look_ns_{0};       // Clock::Monotonic().
  mutable std::atomic<int64_t> next_give_back_ns_{0};  // Clock::Monotonic().
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_MEMORY_GUARD_H_
