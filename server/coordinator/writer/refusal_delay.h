#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_

#include <cstdint>

#include "absl/time/time.h"

namespace luthier::coordinator {

// Decides how long callers who find a queue full are told to stay away. To refuse a call costs half of what it costs to
// take one, so callers who return at once keep the machine busy with refusals. The delay grows while more than an eighth
// as many are refused as taken, and shrinks slowly while fewer than a 32nd are: then those who come are about as many as
// the queue can take. Not thread-safe.
class RefusalDelay {
 public:
  static constexpr absl::Duration kLeast = absl::Milliseconds(100), kMost = absl::Seconds(5);

  void Taken(absl::Duration now);
  // Returns the delay for this caller.
  absl::Duration Refused(absl::Duration now);

 private:
  void Look(absl::Duration now);

  absl::Duration delay_ = kLeast;
  absl::Duration since_ = absl::ZeroDuration();
  int64_t taken_ = 0;  // Since then.
  int64_t refused_ = 0;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_REFUSAL_DELAY_H_
