#ifndef LUTHIER_LIB_BASE_PERMIT_H_
#define LUTHIER_LIB_BASE_PERMIT_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace luthier::base {

// The right of somebody to have done what was begun for them. It may end while that is under way, so it is asked for
// where an effect becomes one. Thread-safe; asking never blocks.
class Permit {
 public:
  virtual ~Permit() = default;
  // OK, or the answer to whoever began it: nothing more is done then. `now`: of Clock::Wall().
  virtual absl::Status Check(absl::Time now) const = 0;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_PERMIT_H_
