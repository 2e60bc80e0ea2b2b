#ifndef LUTHIER_LIB_BASE_LOG_LIMIT_H_
#define LUTHIER_LIB_BASE_LOG_LIMIT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace luthier::base {

// Bounds log lines that strangers can cause: one of each origin in a while, the others are counted. Thread-safe.
class LogLimit {
 public:
  // `clock` must outlive it.
  explicit LogLimit(const Clock* clock, absl::Duration period = absl::Minutes(1)) : clock_(clock), period_(period) {}

  // Nullopt: the line is not to be written. Otherwise returns how many lines of `origin` were not written since the
  // last one that was. Every origin is kept for ever: take few of them.
  std::optional<int64_t> Admit(absl::string_view origin);

 private:
  struct Origin {
    absl::Duration next = -absl::InfiniteDuration();  // The first line is written.
    int64_t left_out = 0;
  };
  const Clock* const clock_;
  const absl::Duration period_;
  Mutex mutex_;
  std::map<std::string, Origin, std::less<>> origins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_LOG_LIMIT_H_
