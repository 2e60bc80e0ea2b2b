#ifndef LUTHIER_SERVER_ACCESS_REFUSALS_H_
#define LUTHIER_SERVER_ACCESS_REFUSALS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace luthier::access {

// Counts failed authentications by address, so that guessing becomes slow. Remembers a bounded number of addresses;
// those beyond share one count. Thread-safe.
class Refusals {
 public:
  static constexpr int kAtOnce = 10;  // Failures in a minute that are answered at once.

  explicit Refusals(const base::Clock* clock) : clock_(clock) {}

  // Returns the time that the answer waits.
  absl::Duration Count(const std::string& address);

 private:
  static constexpr size_t kMaxAddresses = 10'000;
  struct Minute {
    absl::Duration begin = absl::ZeroDuration();
    int64_t count = 0;
  };

  const base::Clock* const clock_;
  base::Mutex mutex_;
  std::map<std::string, Minute> minutes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_REFUSALS_H_
