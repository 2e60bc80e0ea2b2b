#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_DISK_TROUBLE_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_DISK_TROUBLE_H_

#include "absl/time/time.h"

namespace luthier::coordinator {

// Decides what the log says of a disk that can't be written: one line at the beginning, one at the end. On a full disk
// small writes succeed between large ones that fail, so the end is not the first success: it is one of a write that
// somebody asked for, kQuiet after the last failure. Not thread-safe.
class DiskTrouble {
 public:
  // Longer than the pauses after which clients try again what failed.
  static constexpr absl::Duration kQuiet = absl::Seconds(15);

  // True: say that the disk can't be written.
  bool Failed(absl::Duration now) {
    last_failure_ = now;
    const bool begins = !known_;
    known_ = true;
    return begins;
  }
  // A write asked for, not a probe, was done. True: say that the disk can be written again.
  bool Succeeded(absl::Duration now) {
    if (!known_ || now - last_failure_ < kQuiet) return false;
    known_ = false;
    return true;
  }

 private:
  bool known_ = false;
  absl::Duration last_failure_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_DISK_TROUBLE_H_
