#ifndef LUTHIER_TESTS_LIB_GP_SLOPES_TESTING_H_
#define LUTHIER_TESTS_LIB_GP_SLOPES_TESTING_H_

#include <cmath>
#include <vector>

#include "Eigen/Dense"
#include "lib/gp/slopes.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {

inline Hyperparameters Theta(Eigen::Index groups, double lengthscale, double noise, double slope_noise) {
  Hyperparameters theta;
  theta.lengthscales = Eigen::VectorXd::Constant(groups, lengthscale);
  theta.signal_variance = 1.4;
  theta.noise_variance = noise;
  theta.slope_noise_variance = slope_noise;
  theta.mean = 0.3;
  return theta;
}

inline std::vector<kernels::KernelShape> ShapesWithSlopes(const std::vector<int>& column_group) {
  return EveryShape(column_group);
}

// f(x) = sum_j sin((j + 2) x_j)/(j + 1) + x_0 x_last and its gradient.
inline double Smooth(const Eigen::VectorXd& x) {
  double f = x(0) * x(x.size() - 1);
  for (Eigen::Index j = 0; j < x.size(); ++j)
    f += std::sin(static_cast<double>(j + 2) * x(j)) / static_cast<double>(j + 1);
  return f;
}
inline Eigen::VectorXd SmoothGradient(const Eigen::VectorXd& x) {
  Eigen::VectorXd g(x.size());
  for (Eigen::Index j = 0; j < x.size(); ++j) {
    const double frequency = static_cast<double>(j + 2);
    g(j) = frequency * std::cos(frequency * x(j)) / static_cast<double>(j + 1);
  }
  g(0) += x(x.size() - 1);
  g(x.size() - 1) += x(0);
  return g;
}
inline Eigen::VectorXd SmoothValues(const Eigen::MatrixXd& x) {
  Eigen::VectorXd y(x.rows());
  for (Eigen::Index i = 0; i < x.rows(); ++i) y(i) = Smooth(x.row(i));
  return y;
}

// A gradient at every third point, one slope along a random direction at every third, none at the others.
inline Slopes MixedSlopes(base::RandomStream& stream, const Eigen::MatrixXd& x) {
  Slopes slopes;
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    const Eigen::VectorXd gradient = SmoothGradient(x.row(i));
    if (i % 3 == 0) slopes.AddGradient(i, gradient, 1e-3);
    if (i % 3 == 1) {
      const Eigen::VectorXd direction = RandomNormals(stream, x.cols()).normalized();
      slopes.Add(i, direction, gradient.dot(direction));
    }
  }
  return slopes;
}

}  // namespace luthier::gp

#endif  // LUTHIER_TESTS_LIB_GP_SLOPES_TESTING_H_
