#include "lib/base/clock.h"

#include <ctime>

namespace luthier::base {
namespace {

int64_t Nanos(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

absl::Duration SystemClock::Monotonic() const {
  return absl::Nanoseconds(Nanos(CLOCK_MONOTONIC));
}
absl::Time SystemClock::Wall() const {
  return absl::FromUnixNanos(Nanos(CLOCK_REALTIME));
}

}  // namespace luthier::base
