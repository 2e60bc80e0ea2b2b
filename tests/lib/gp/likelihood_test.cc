#include "lib/gp/likelihood.h"

#include <cmath>

#include "gtest/gtest.h"
#include "lib/gp/regression.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

Hyperparameters Theta(std::initializer_list<double> lengthscales, double signal, double noise, double mean) {
  Hyperparameters theta;
  theta.lengthscales.resize(static_cast<Index>(lengthscales.size()));
  Index j = 0;
  for (double l : lengthscales) theta.lengthscales(j++) = l;
  theta.signal_variance = signal;
  theta.noise_variance = noise;
  theta.mean = mean;
  return theta;
}

// phi = (ln l…, ln s, ln noise, m [, ln shape parameter]).
Hyperparameters FromLogs(const VectorXd& phi, Index groups) {
  Hyperparameters theta;
  theta.lengthscales = phi.head(groups).array().exp();
  theta.signal_variance = std::exp(phi(groups));
  theta.noise_variance = std::exp(phi(groups + 1));
  theta.mean = phi(groups + 2);
  if (phi.size() > groups + 3) theta.shape_parameter = std::exp(phi(groups + 3));
  return theta;
}

VectorXd ToVector(const LikelihoodGradient& g) {
  VectorXd v(g.log_lengthscales.size() + 3);
  v << g.log_lengthscales, g.log_signal_variance, g.log_noise_variance, g.mean;
  return v;
}

TEST(Likelihood, MatchesTheDenseFormula) {
  base::RandomStream stream(1, "likelihood");
  for (Index n = 1; n <= 6; ++n) {
    const MatrixXd x = RandomPoints(stream, n, 2);
    const VectorXd y = RandomNormals(stream, n);
    const Hyperparameters theta = Theta({0.3, 0.9}, 1.7, 0.02, 0.4);
    const kernels::KernelShape shape = kernels::ArdShape(Family::kMatern52, 2);
    const MatrixXd c = DenseCovariance(shape, theta, x);
    const VectorXd r = y.array() - theta.mean;
    const double expected = -0.5 * r.dot(c.inverse() * r) - 0.5 * std::log(c.determinant()) -
                            0.5 * static_cast<double>(n) * std::log(2.0 * M_PI);
    EXPECT_NEAR(Likelihood(shape, x, y).Marginal(theta, nullptr, base::StopToken()).value(), expected, 1e-10);
  }
}

TEST(Likelihood, GradientMatchesDifferencesForEveryShape) {
  base::RandomStream stream(2, "likelihood");
  const Index n = 60;
  const MatrixXd x = RandomPoints(stream, n, 4);
  const VectorXd y = RandomNormals(stream, n);
  for (const kernels::KernelShape& shape : EveryShape({0, 1, 2, 2})) {
    Likelihood likelihood(shape, x, y);
    const VectorXd phi =
        (VectorXd(7) << std::log(0.4), std::log(1.1), std::log(0.2), 0.3, std::log(1e-2), -0.3, 0.4).finished();
    LikelihoodGradient gradient;
    const double value = likelihood.Marginal(FromLogs(phi, 3), &gradient, base::StopToken()).value();
    EXPECT_NEAR(value, likelihood.Marginal(FromLogs(phi, 3), nullptr, base::StopToken()).value(), 1e-10);
    const math::GradientCheck check = math::CheckGradient(
        [&](const VectorXd& at) { return likelihood.Marginal(FromLogs(at, 3), nullptr, base::StopToken()).value(); },
        phi, (VectorXd(7) << ToVector(gradient), gradient.log_shape_parameter).finished());
    EXPECT_LT(check.error, 1e-7) << kernels::ShapeName(shape) << ": " << check.Summary();
  }
}

TEST(Likelihood, ProfiledMeanMaximisesAndItsGradientIsTotal) {
  base::RandomStream stream(3, "likelihood");
  const MatrixXd x = RandomPoints(stream, 30, 2);
  const VectorXd y = RandomNormals(stream, 30).array() + 1.5;
  const kernels::KernelShape shape = kernels::ArdShape(Family::kMatern52, 2);
  Likelihood likelihood(shape, x, y);
  const VectorXd phi = (VectorXd(4) << -0.7, -0.2, 0.1, std::log(0.05)).finished();
  auto profiled = [&](const VectorXd& at, LikelihoodGradient* gradient, double* mean) {
    Hyperparameters theta = FromLogs((VectorXd(5) << at, 0.0).finished(), 2);
    const double value = likelihood.MarginalOverMean(&theta, gradient, base::StopToken()).value();
    if (mean != nullptr) *mean = theta.mean;
    return value;
  };
  LikelihoodGradient gradient;
  double mean = 0.0;
  const double value = profiled(phi, &gradient, &mean);
  for (double shift : {-0.1, -0.01, 0.01, 0.1}) {
    Hyperparameters other = FromLogs((VectorXd(5) << phi, mean + shift).finished(), 2);
    EXPECT_LT(likelihood.Marginal(other, nullptr, base::StopToken()).value() - 0.5 * other.mean * other.mean, value);
  }
  const math::GradientCheck check = math::CheckGradient(
      [&](const VectorXd& at) { return profiled(at, nullptr, nullptr); }, phi, ToVector(gradient).head(4));
  EXPECT_LT(check.error, 1e-7) << check.Summary();
  EXPECT_EQ(gradient.mean, 0.0);
}

TEST(Likelihood, SingularCovarianceIsMinusInfinityAndNotATrap) {
  MatrixXd x = MatrixXd::Constant(5, 1, 0.5);
  const VectorXd y = VectorXd::LinSpaced(5, -1.0, 1.0);
  Likelihood likelihood(kernels::ArdShape(Family::kMatern52, 1), x, y);
  EXPECT_EQ(likelihood.Marginal(Theta({0.5}, 1.0, 0.0, 0.0), nullptr, base::StopToken()).value(), -INFINITY);
  EXPECT_TRUE(std::isfinite(likelihood.Marginal(Theta({0.5}, 1.0, 1e-6, 0.0), nullptr, base::StopToken()).value()));
}

TEST(Likelihood, NoDataHaveLikelihoodOne) {
  Likelihood likelihood(kernels::ArdShape(Family::kMatern52, 2), MatrixXd(0, 2), VectorXd(0));
  LikelihoodGradient gradient;
  Hyperparameters theta = Theta({0.5, 0.5}, 1.0, 1e-6, 0.0);
  EXPECT_EQ(likelihood.MarginalOverMean(&theta, &gradient, base::StopToken()).value(), 0.0);
  EXPECT_EQ(ToVector(gradient), VectorXd::Zero(5));
}

}  // namespace
}  // namespace luthier::gp
