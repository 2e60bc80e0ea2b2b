#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_

#include <cstdint>

#include "absl/time/time.h"

namespace luthier::coordinator {

// Decides how long callers who find a queue full are told to stay away. To refuse a call costs half of what it costs to
// take one, so callers who return at once, or all together, keep the machine busy with refusals. Each is told a moment
// of its own: they return one after the other, one for sixteen that the queue takes. Not thread-safe.
class RefusalDelay {
 public:
  static constexpr absl::Duration kLeast = absl::Milliseconds(100), kMost = absl::Seconds(5);

  void Taken(absl::Duration now);
  // Returns the delay for this caller.
  absl::Duration Refused(absl::Duration now);

 private:
  void Look(absl::Duration now);

  absl::Duration next_ = absl::ZeroDuration();   // When the last who was refused returns.
  absl::Duration since_ = absl::ZeroDuration();  // When `rate_` was last looked at.
  int64_t taken_ = 0;                            // Since then.
  double rate_ = 1000.0;                         // Operations taken a second, over the last second or so.
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_
