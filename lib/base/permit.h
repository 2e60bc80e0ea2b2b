#ifndef LUTHIER_LIB_BASE_PERMIT_H_
#define LUTHIER_LIB_BASE_PERMIT_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace luthier::base {

// The right of a caller to the effect of a request. It may end while the request is under way, so it is checked where
// the effect takes place. Thread-safe; checking never blocks.
class Permit {
 public:
  virtual ~Permit() = default;
  // Returns OK, or the error to answer the caller with; the request then has no further effect. `now`: Clock::Wall().
  virtual absl::Status Check(absl::Time now) const = 0;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_PERMIT_H_
