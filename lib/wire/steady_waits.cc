#include "lib/wire/steady_waits.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>

namespace {

using Syscall = long (*)(long, ...);  // NOLINT(runtime/int): libc's.

constexpr int64_t kNanos = 1'000'000'000;

std::atomic<bool> steady{false};

Syscall Next() {
  static const auto next = reinterpret_cast<Syscall>(dlsym(RTLD_NEXT, "syscall"));
  return next;
}

// Finds the function first: later on a child after fork() may not look for it.
__attribute__((constructor)) void LookAhead() {
  Next();
}

int64_t Now(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * kNanos + now.tv_nsec;
}

// Returns the moment of CLOCK_MONOTONIC that is as far away as `moment` of CLOCK_REALTIME.
timespec OnSteadyClock(const timespec& moment) {
  constexpr int64_t kLongest = int64_t{100} * 365 * 24 * 3600 * kNanos;
  const int64_t longest_seconds = kLongest / kNanos;
  const int64_t now = Now(CLOCK_REALTIME);
  const int64_t seconds = moment.tv_sec - now / kNanos;
  int64_t left = kLongest;
  if (seconds < longest_seconds) left = seconds * kNanos + moment.tv_nsec - now % kNanos;
  if (seconds < -1 || left < 0) left = 0;
  const int64_t end = Now(CLOCK_MONOTONIC) + left;
  return {end / kNanos, end % kNanos};
}

}  // namespace

// Replaces libc's function for one call: FUTEX_WAIT_BITSET until a moment of the wall clock, which is how Abseil waits.
extern "C" long syscall(long number, ...) noexcept {  // NOLINT(runtime/int)
  va_list list;
  va_start(list, number);
  long a[6];  // NOLINT(runtime/int)
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const bool waits = number == SYS_futex && a[3] != 0 && (a[1] & FUTEX_CLOCK_REALTIME) != 0 &&
                     (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
  if (!waits || !steady.load(std::memory_order_relaxed)) return Next()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const timespec end = OnSteadyClock(*reinterpret_cast<const timespec*>(a[3]));
  return Next()(number, a[0], a[1] & ~long{FUTEX_CLOCK_REALTIME}, a[2], &end, a[4], a[5]);
}

namespace luthier::wire {

void KeepWaitsSteady() {
  steady = true;
}

}  // namespace luthier::wire
