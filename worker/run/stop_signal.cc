#include "worker/run/stop_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "lib/base/check.h"

namespace luthier::worker {

absl::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "none";
    case StopReason::kPause:
      return "pause";
    case StopReason::kFinish:
      return "finish";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kLost:
      return "lost";
    case StopReason::kRejected:
      return "rejected";
    case StopReason::kDrain:
      return "drain";
  }
  return "";
}

namespace {

bool Replaces(StopReason reason, StopReason before) {
  if (before == StopReason::kPause) return reason != StopReason::kPause;
  return before == StopReason::kFinish && reason != StopReason::kPause && reason != StopReason::kFinish;
}

}  // namespace

StopSignal::StopSignal() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

StopSignal::~StopSignal() {
  if (fd_ >= 0) close(fd_);
}

void StopSignal::Request(StopReason reason) {
  LUTHIER_CHECK(reason != StopReason::kNone);
  StopReason expected = StopReason::kNone;
  if (!reason_.compare_exchange_strong(expected, reason)) {
    while (Replaces(reason, expected) && !reason_.compare_exchange_weak(expected, reason)) {
    }
    return;
  }
  source_.RequestStop();
  if (fd_ < 0) return;
  const uint64_t one = 1;
  // Cannot block: the counter goes from 0 to 1.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

}  // namespace luthier::worker
