#ifndef LUTHIER_TESTS_LIB_GP_GP_TESTING_H_
#define LUTHIER_TESTS_LIB_GP_GP_TESTING_H_

#include <vector>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyperparameters.h"
#include "lib/kernels/stationary.h"
#include "lib/math/finite_difference.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using kernels::Family;

inline Eigen::MatrixXd RandomPoints(base::RandomStream& stream, Eigen::Index n, Eigen::Index d) {
  Eigen::MatrixXd x(n, d);
  for (Eigen::Index j = 0; j < d; ++j) {
    for (Eigen::Index i = 0; i < n; ++i) x(i, j) = stream.Uniform();
  }
  return x;
}

// One lengthscale for each of d columns.
inline kernels::KernelShape Shape(int d, kernels::Family family = kernels::Family::kMatern52) {
  return kernels::ArdShape(family, d);
}

// Joint, additive and pairwise kernels on one grouping of the columns.
inline std::vector<kernels::KernelShape> EveryShape(const std::vector<int>& column_group) {
  using kernels::Family;
  using kernels::Structure;
  std::vector<kernels::KernelShape> shapes;
  for (Family family : {Family::kSquaredExponential, Family::kMatern52}) {
    for (Structure structure : {Structure::kJoint, Structure::kAdditive, Structure::kPairwise}) {
      shapes.push_back(kernels::GroupedShape(family, column_group, structure));
    }
  }
  return shapes;
}

inline Eigen::VectorXd RandomNormals(base::RandomStream& stream, Eigen::Index n) {
  Eigen::VectorXd v(n);
  for (Eigen::Index i = 0; i < n; ++i) v(i) = stream.Normal();
  return v;
}

// Checks the posterior's gradient at `phi` against differences.
inline void ExpectGradient(const HyperPosterior& posterior, const Eigen::VectorXd& phi) {
  Eigen::VectorXd gradient;
  posterior.Value(phi, &gradient, nullptr, base::StopToken()).value();
  const math::GradientCheck check = math::CheckGradient(
      [&](const Eigen::VectorXd& at) { return posterior.Value(at, nullptr, nullptr, base::StopToken()).value(); }, phi,
      gradient);
  EXPECT_LT(check.error, 1e-6) << check.Summary();
}

// C = K + noise I by the textbook, without our factorisation.
inline Eigen::MatrixXd DenseCovariance(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                       const Eigen::MatrixXd& x) {
  Eigen::MatrixXd c = KernelOf(shape, theta).Gram(x);
  c.diagonal().array() += theta.noise_variance;
  return c;
}

// A draw of y at x from the prior of theta.
inline Eigen::VectorXd DrawOutputs(base::RandomStream& stream, const kernels::KernelShape& shape,
                                   const Hyperparameters& theta, const Eigen::MatrixXd& x) {
  const Eigen::MatrixXd l = Eigen::LLT<Eigen::MatrixXd>(DenseCovariance(shape, theta, x)).matrixL();
  return (l * RandomNormals(stream, x.rows())).array() + theta.mean;
}

}  // namespace luthier::gp

#endif  // LUTHIER_TESTS_LIB_GP_GP_TESTING_H_
