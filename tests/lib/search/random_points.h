#ifndef LUTHIER_TESTS_LIB_SEARCH_RANDOM_POINTS_H_
#define LUTHIER_TESTS_LIB_SEARCH_RANDOM_POINTS_H_

#include <cstdint>

#include "Eigen/Core"
#include "lib/base/random.h"

namespace luthier::search {

// n x d, uniform in the unit cube.
inline Eigen::MatrixXd RandomPoints(int n, int d, uint64_t seed) {
  base::RandomStream stream(seed, "random points");
  Eigen::MatrixXd u(n, d);
  for (double& x : u.reshaped()) x = stream.Uniform();
  return u;
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_RANDOM_POINTS_H_
