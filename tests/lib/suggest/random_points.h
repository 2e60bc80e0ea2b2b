#ifndef LUTHIER_TESTS_LIB_SUGGEST_RANDOM_POINTS_H_
#define LUTHIER_TESTS_LIB_SUGGEST_RANDOM_POINTS_H_

#include <cstdint>

#include "Eigen/Core"
#include "lib/base/random.h"

namespace luthier::suggest {

// n x d, uniform in the unit cube.
inline Eigen::MatrixXd RandomPoints(int n, int d, uint64_t seed) {
  base::RandomStream stream(seed, "random points");
  Eigen::MatrixXd u(n, d);
  for (double& x : u.reshaped()) x = stream.Uniform();
  return u;
}

}  // namespace luthier::suggest

#endif  // LUTHIER_TESTS_LIB_SUGGEST_RANDOM_POINTS_H_
