#ifndef LUTHIER_SERVER_SERVICE_MEMORY_GUARD_H_
#define LUTHIER_SERVER_SERVICE_MEMORY_GUARD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"

namespace luthier::service {

// Keeps the process within its memory: what would bring more work is refused first, what ends work is taken a little
// longer. Counted is what is in use and what was promised to calls under way, so that many large calls at once are
// refused before they take anything. Thread-safe.
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

  // Memory that a call was promised: it counts as used until this is gone.
  class Promise {
   public:
    Promise() = default;
    Promise(const MemoryGuard* guard, int64_t bytes) : guard_(guard), bytes_(bytes) {}
    Promise(Promise&& other) noexcept
        : guard_(std::exchange(other.guard_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Promise& operator=(Promise&& other) noexcept {
      std::swap(guard_, other.guard_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Promise() {
      if (guard_ != nullptr) guard_->promised_ -= bytes_;
    }

   private:
    const MemoryGuard* guard_ = nullptr;
    int64_t bytes_ = 0;
  };
  // Work: asks, creates and reads. Ending: results, heartbeats, and calls that end studies or trials.
  enum class Kind { kWork, kEnding };

  // RESOURCE_EXHAUSTED MEMORY with a delay: work from the limit on, what ends work from 1.1 times the limit on.
  absl::Status AdmitWork() const { return Admit(Kind::kWork, promised_, 0); }
  absl::Status AdmitResult() const { return Admit(Kind::kEnding, promised_, 0); }
  // The same for what will take so many bytes more. The guard must outlive the promise.
  absl::StatusOr<Promise> Take(Kind kind, int64_t bytes) const;

  // Bytes that the process may use; 0: no limit.
  int64_t limit() const { return options_.limit; }

  static int64_t ResidentBytes();
  static void GiveBack();

 private:
  // OK if `more` can be taken besides what was promised to others.
  absl::Status Admit(Kind kind, int64_t promised, int64_t more) const;
  // Bytes in use, as of at most 10 ms ago. Gives freed memory back if they are more than `bearable`.
  int64_t Used(int64_t bearable) const;

  const Options options_;
  const base::Clock* const clock_;
  mutable std::atomic<int64_t> promised_{0};
  mutable std::atomic<int64_t> used_{0};
  mutable std::atomic<int64_t> next_look_ns_{0};       // Clock::Monotonic().
  mutable std::atomic<int64_t> next_give_back_ns_{0};  // Clock::Monotonic().
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_MEMORY_GUARD_H_
