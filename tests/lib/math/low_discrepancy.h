// How evenly points fill the unit cube: what every low-discrepancy sequence is tested for.
#ifndef LUTHIER_TESTS_LIB_MATH_LOW_DISCREPANCY_H_
#define LUTHIER_TESTS_LIB_MATH_LOW_DISCREPANCY_H_

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "lib/base/random.h"

namespace luthier::math {

// Lower bound of the star discrepancy of n points of the plane (n x 2), over a part of the grid of their coordinates;
// uniform random points give about 0.04 for n = 1024.
inline double StarDiscrepancyBound(const Eigen::MatrixXd& points) {
  const double n = static_cast<double>(points.rows());
  double worst = 0.0;
  for (Eigen::Index a = 0; a < points.rows(); a += 7) {
    for (Eigen::Index b = 0; b < points.rows(); b += 7) {
      const double x = points(a, 0), y = points(b, 1);
      const double inside = ((points.col(0).array() < x) && (points.col(1).array() < y)).cast<double>().sum();
      worst = std::max(worst, std::abs(inside / n - x * y));
    }
  }
  return worst;
}

// For how many of 100 seeds the points (n x 5, by seed) estimate the integral of x1 x2 x3 x4 x5, 1/32, better than as
// many random points.
inline int IntegrationWins(const std::function<Eigen::MatrixXd(uint64_t seed)>& points) {
  int wins = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Eigen::MatrixXd p = points(seed);
    base::RandomStream stream(seed, "integrate/random");
    double random_mean = 0.0;
    for (Eigen::Index i = 0; i < p.rows(); ++i) {
      double product = 1.0;
      for (int j = 0; j < 5; ++j) product *= stream.Uniform();
      random_mean += product / static_cast<double>(p.rows());
    }
    const double truth = 1.0 / 32.0;
    wins += std::abs(p.rowwise().prod().mean() - truth) < std::abs(random_mean - truth) ? 1 : 0;
  }
  return wins;
}

}  // namespace luthier::math

#endif  // LUTHIER_TESTS_LIB_MATH_LOW_DISCREPANCY_H_
