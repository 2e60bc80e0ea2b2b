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

// Bounds the log lines that strangers can cause: each origin gets one line per period, and the others are counted.
// Thread-safe.
class LogLimit {
 public:
  // `clock` must outlive it.
  explicit LogLimit(const Clock* clock, absl::Duration period = absl::Minutes(1)) : clock_(clock), period_(period) {}

  // Returns std::nullopt if the line shall not be written; otherwise the number of lines of `origin` that were
  // suppressed since its last written line. Every origin is kept for ever, so there must be few of them.
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
