#ifndef LUTHIER_LIB_MATH_INFINITY_H_
#define LUTHIER_LIB_MATH_INFINITY_H_

#include <limits>

namespace luthier::math {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_INFINITY_H_
