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

// Keeps the process within its memory. Calls that bring more work are refused at the limit, calls that end work a
// little above it. Memory in use counts, and memory that was promised to calls under way, so that many large calls at
// once are refused before they allocate anything. Thread-safe.
class MemoryGuard {
 public:
  struct Options {
    int64_t limit = 0;  // Bytes; 0: none.
    // Returns the resident bytes of the process. Tests bring their own.
    std::function<int64_t()> used = ResidentBytes;
    // Gives freed memory back to the system. Called when the limit is reached, at most once a second.
    std::function<void()> give_back = GiveBack;
  };
  // `clock` must outlive it.
  MemoryGuard(Options options, const base::Clock* clock);

  // Memory that a call was promised. It counts as used until this is destroyed.
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

  // Returns RESOURCE_EXHAUSTED MEMORY with a delay: for work from the limit on, for calls that end work from 1.1 times
  // the limit on.
  absl::Status Admit(Kind kind) const { return Admit(kind, promised_, 0); }
  // Reserves `bytes` for a call, with the same errors. The guard must outlive the promise.
  absl::StatusOr<Promise> Take(Kind kind, int64_t bytes) const;

  // Bytes that the process may use; 0: no limit.
  int64_t limit() const { return options_.limit; }

  static int64_t ResidentBytes();
  static void GiveBack();

 private:
  // OK if `more` can be taken besides what was promised to others.
  absl::Status Admit(Kind kind, int64_t promised, int64_t more) const;
  // Returns the bytes in use, as of at most 10 ms ago. Gives freed memory back if they are more than `bearable`.
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
