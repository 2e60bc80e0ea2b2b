#ifndef LUTHIER_LIB_BASE_CLOCK_H_
#define LUTHIER_LIB_BASE_CLOCK_H_

#include <atomic>

#include "absl/time/time.h"

namespace luthier::base {

// The only source of time. Wall time labels events and is never compared, except with the end of a token or a
// certificate; leases and deadlines use Monotonic(), which steps of the wall clock do not move.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since some fixed point in the past; never goes back.
  virtual absl::Duration Monotonic() const = 0;
  // Time in UTC.
  virtual absl::Time Wall() const = 0;
};

// Reads CLOCK_MONOTONIC and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  absl::Duration Monotonic() const override;
  absl::Time Wall() const override;
};

// A clock that stands still until it is told to move, for tests and simulations. Thread-safe.
class ManualClock final : public Clock {
 public:
  absl::Duration Monotonic() const override { return absl::Nanoseconds(monotonic_ns_.load()); }
  absl::Time Wall() const override { return absl::FromUnixNanos(wall_ns_.load()); }
  void Advance(absl::Duration by) {
    monotonic_ns_ += absl::ToInt64Nanoseconds(by);
    wall_ns_ += absl::ToInt64Nanoseconds(by);
  }
  // A step of the wall clock alone, as an operator or NTP makes it.
  void JumpWall(absl::Duration by) { wall_ns_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> monotonic_ns_{1'000'000'000};
  std::atomic<int64_t> wall_ns_{1'700'000'000'000'000'000};
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_CLOCK_H_
