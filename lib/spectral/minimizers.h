#ifndef LUTHIER_LIB_SPECTRAL_MINIMIZERS_H_
#define LUTHIER_LIB_SPECTRAL_MINIMIZERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/spectral/parity.h"

namespace luthier::spectral {

inline constexpr int kMaxEnumeratedBits = 20;

// An assignment to the variables of a polynomial and its value there.
struct Assignment {
  uint32_t code = 0;  // Bit k set: variable k (in ascending order of bits) is -1.
  double value = 0.0;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Drops terms of least |weight| until the polynomial has at most kMaxEnumeratedBits variables. Terms must be by falling
// |weight|. Returns how many were dropped.
int LimitVariables(Polynomial* polynomial);

// The `count` assignments to Variables(polynomial) of least value, ascending, equal ones by code. All 2^|J| are visited
// in Gray-code order, so that a step flips the signs of one variable's terms. |J| <= kMaxEnumeratedBits. Returns
// CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<Assignment>> Minimizers(const Polynomial& polynomial, int count,
                                                   const base::StopToken& stop);

}  // namespace luthier::spectral

#endif  // LUTHIER_LIB_SPECTRAL_MINIMIZERS_H_
