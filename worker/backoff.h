#ifndef LUTHIER_WORKER_BACKOFF_H_
#define LUTHIER_WORKER_BACKOFF_H_

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace luthier::worker {

// How long to wait before the next try: uniform in (0, min(10 s, 0.1 s · 2^tries)) ("full jitter"), so that a thousand
// workers do not return together; never less than the server asked for. While no server is reached the limit is 1 s:
// such a try stays within this process, as the connection has pauses of its own (wire/channel.h), and the end of an
// outage shall be noticed soon. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(base::RandomStream random) : random_(random) {}

  absl::Duration Next(const absl::Status& error) {
    const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(error);
    const bool unreached = absl::IsUnavailable(error) && !detail;
    const absl::Duration cap = std::min(unreached ? absl::Seconds(1) : absl::Seconds(10),
                                        absl::Milliseconds(100) * std::exp2(std::min(tries_++, 10)));
    absl::Duration wait = cap * random_.UniformOpen();
    // A hostile or broken server must not park a worker for ever.
    if (detail && detail->retry_delay) wait = std::max(wait, std::min(*detail->retry_delay, absl::Minutes(1)));
    return wait;
  }
  void Reset() { tries_ = 0; }
  int tries() const { return tries_; }

 private:
  base::RandomStream random_;
  int tries_ = 0;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_BACKOFF_H_
