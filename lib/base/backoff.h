#ifndef LUTHIER_LIB_BASE_BACKOFF_H_
#define LUTHIER_LIB_BASE_BACKOFF_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/random.h"

namespace luthier::base {

// Decides how long to wait before a failed call is sent again. The wait before retry k = 1, 2, … is uniform in
// (0, min(10 s, 0.1 s · 2^(k-1))), so that a thousand callers do not return together ("full jitter": Brooker 2015,
// "Exponential backoff and jitter"). It is at least the delay that the server names, of which one minute counts at
// most: no server may park its callers for ever.
//
// While no server is reached the limit is 1 s instead of 10 s. Such a retry stays within the process, as the connection
// has pauses of its own (wire/channel.h), and the end of an outage shall be noticed soon.
//
// Not thread-safe.
class Backoff {
 public:
  static constexpr absl::Duration kMaxServerDelay = absl::Minutes(1);

  // `random` decides every wait.
  explicit Backoff(RandomStream random) : random_(random) {}

  // Returns how long to wait after the failure `status`, and counts it.
  absl::Duration Next(const absl::Status& status);
  // Forgets the failures: the last call succeeded.
  void Reset() { failures_ = 0; }

 private:
  RandomStream random_;
  int failures_ = 0;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_BACKOFF_H_
