#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_

#include <cstdint>

#include "absl/time/time.h"

namespace luthier::coordinator {

// Decides how long callers who find a queue full are told to stay away. Refusing a call costs half as much as accepting
// one, so callers who return at once, or all together, keep the machine busy with refusals. Each is told a moment of
// its own: they return one after the other, one for every sixteen calls that the queue accepts. Not thread-safe.
class RefusalDelay {
 public:
  static constexpr absl::Duration kLeast = absl::Milliseconds(100), kMost = absl::Seconds(5);

  void Taken(absl::Duration now);
  // Returns the delay for this caller.
  absl::Duration Refused(absl::Duration now);

 private:
  void Look(absl::Duration now);

  absl::Duration next_ = absl::ZeroDuration();   // When the last refused caller returns.
  absl::Duration since_ = absl::ZeroDuration();  // When `rate_` was last computed.
  int64_t taken_ = 0;                            // Operations accepted since then.
  double rate_ = 1000.0;                         // Operations accepted a second, over the last second or so.
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_
