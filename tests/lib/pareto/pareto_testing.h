#ifndef LUTHIER_TESTS_LIB_PARETO_PARETO_TESTING_H_
#define LUTHIER_TESTS_LIB_PARETO_PARETO_TESTING_H_

#include <cmath>

#include "Eigen/Core"
#include "lib/base/random.h"

namespace luthier::pareto {

// Random points of the unit cube, as rows. With `levels` > 0 their coordinates are multiples of 1/levels, so that many
// are equal.
inline Eigen::MatrixXd RandomPoints(Eigen::Index rows, Eigen::Index columns, int levels, base::RandomStream& random) {
  Eigen::MatrixXd points(rows, columns);
  for (double& x : points.reshaped()) {
    x = random.Uniform();
    if (levels > 0) x = std::floor(x * levels) / levels;
  }
  return points;
}

// Random points of the part of the unit sphere with coordinates above 0: no one dominates another.
inline Eigen::MatrixXd SpherePoints(Eigen::Index rows, Eigen::Index columns, base::RandomStream& random) {
  Eigen::MatrixXd points(rows, columns);
  for (double& x : points.reshaped()) x = std::abs(random.Normal());
  points.rowwise().normalize();
  return points;
}

}  // namespace luthier::pareto

#endif  // LUTHIER_TESTS_LIB_PARETO_PARETO_TESTING_H_
