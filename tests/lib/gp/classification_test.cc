#include "lib/gp/classification.h"

#include <cmath>

#include "gtest/gtest.h"
#include "lib/math/finite_difference.h"
#include "lib/math/special_functions.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

struct Problem {
  kernels::KernelShape shape;
  Hyperparameters theta;
  MatrixXd x;
  VectorXd labels;
};

// Failing where the first coordinate is above 0.6, and now and then elsewhere.
Problem MakeProblem(Index n, int d, double signal, uint64_t seed) {
  base::RandomStream stream(seed, "test/classification");
  Problem p;
  p.shape = kernels::ArdShape(kernels::Family::kMatern52, d);
  p.theta.lengthscales = VectorXd::LinSpaced(d, 0.3, 0.8);
  p.theta.signal_variance = signal;
  p.x = RandomPoints(stream, n, d);
  p.labels.resize(n);
  for (Index i = 0; i < n; ++i) p.labels(i) = p.x(i, 0) > 0.6 || stream.Uniform() < 0.1 ? -1.0 : 1.0;
  return p;
}

Classifier Fit(const Problem& p, const ClassifierPrior& prior = {}) {
  return *Classifier::Fit(p.shape, p.theta, p.x, p.labels, prior, nullptr, base::StopToken()).value();
}

MatrixXd Covariance(const Problem& p, const MatrixXd& x, const ClassifierPrior& prior) {
  return (KernelOf(p.shape, p.theta).Gram(x).array() + prior.variance).matrix();
}

// By dense algebra with explicit inverses, at the mode that Fit found.
TEST(Classifier, IsLaplacesApproximation) {
  const ClassifierPrior prior;
  const Problem p = MakeProblem(25, 2, 6.0, 1);
  const Classifier fit = Fit(p);
  const MatrixXd k = Covariance(p, p.x, prior);
  VectorXd first(25), w(25);
  double likelihood = 0.0;
  for (Index i = 0; i < 25; ++i) {
    const double z = p.labels(i) * (fit.mode()(i) + prior.mean);
    const double phi = std::exp(-0.5 * z * z) / std::sqrt(2.0 * M_PI), cdf = 0.5 * std::erfc(-z / std::sqrt(2.0));
    first(i) = p.labels(i) * phi / cdf;
    w(i) = phi * phi / (cdf * cdf) + z * phi / cdf;
    likelihood += std::log(cdf);
  }
  // Stationary: the gradient of ln p(y | f) + ln p(f) is 0.
  EXPECT_LT((k * first - fit.mode()).cwiseAbs().maxCoeff(), 1e-6);
  const MatrixXd b = MatrixXd::Identity(25, 25) + MatrixXd(k * w.asDiagonal());
  const double evidence = likelihood - 0.5 * fit.mode().dot(k.fullPivLu().solve(fit.mode())) -
                          0.5 * std::log(std::abs(b.fullPivLu().determinant()));
  EXPECT_NEAR(fit.log_evidence(), evidence, 1e-6);
  // mean k'K^-1 f^, variance k** - k'(K + W^-1)^-1 k.
  base::RandomStream stream(2, "test/points");
  const MatrixXd u = RandomPoints(stream, 7, 2);
  const Posterior latent = fit.Latent(u);
  const MatrixXd noisy = k + MatrixXd(w.cwiseInverse().asDiagonal());
  for (Index i = 0; i < u.rows(); ++i) {
    MatrixXd both(26, 2);
    both << p.x, u.row(i);
    const MatrixXd all = Covariance(p, both, prior);
    const VectorXd cross = all.col(25).head(25);
    EXPECT_NEAR(latent.mean(i), prior.mean + cross.dot(k.fullPivLu().solve(fit.mode())), 1e-5);
    EXPECT_NEAR(latent.variance(i), all(25, 25) - cross.dot(noisy.fullPivLu().solve(cross)), 1e-6);
    const double z = latent.mean(i) / std::sqrt(1.0 + latent.variance(i));
    EXPECT_NEAR(fit.LogProbabilities(u)(i), std::log(0.5 * std::erfc(-z / std::sqrt(2.0))), 1e-12);
  }
}

TEST(Classifier, StartsDoNotMatter) {
  const Problem p = MakeProblem(40, 2, 50.0, 3);
  const Classifier a = Fit(p);
  base::RandomStream stream(4, "test/start");
  const VectorXd start = 5.0 * RandomNormals(stream, 40);
  const Classifier b = *Classifier::Fit(p.shape, p.theta, p.x, p.labels, {}, &start, base::StopToken()).value();
  EXPECT_NEAR(a.log_evidence(), b.log_evidence(), 1e-8);
  EXPECT_LT((a.mode() - b.mode()).cwiseAbs().maxCoeff(), 1e-4);
}

TEST(Classifier, GradientsMatchDifferences) {
  for (const double signal : {0.5, 8.0, 200.0}) {
    const Problem p = MakeProblem(30, 3, signal, 5);
    const Classifier fit = Fit(p);
    const EvidenceGradient analytic = fit.Gradient(base::StopToken()).value();
    VectorXd phi(4), gradient(4);
    phi << p.theta.lengthscales.array().log().matrix(), std::log(signal);
    gradient << analytic.log_lengthscales, analytic.log_signal_variance;
    const auto evidence = [&](const VectorXd& at) {
      Problem q = p;
      q.theta.lengthscales = at.head(3).array().exp();
      q.theta.signal_variance = std::exp(at(3));
      return Fit(q).log_evidence();
    };
    const math::GradientCheck check = math::CheckGradient(evidence, phi, gradient, 1e-4);
    EXPECT_LT(check.error, 1e-4) << check.Summary();
    base::RandomStream stream(6, "test/points");
    const MatrixXd u = RandomPoints(stream, 10, 3);
    for (Index i = 0; i < u.rows(); ++i) {
      VectorXd slope;
      const double value = fit.LogProbability(u.row(i).transpose(), &slope);
      EXPECT_NEAR(value, fit.LogProbabilities(u.row(i))(0), 1e-10);
      const math::GradientCheck log = math::CheckGradient(
          [&](const VectorXd& at) { return fit.LogProbability(at, nullptr); }, u.row(i).transpose(), slope);
      EXPECT_LT(log.error, 1e-6) << log.Summary();
    }
  }
}

// P(y = 1 | u) and ln p(y) by importance sampling of f at the data from the prior: exact in the limit, and far from
// Laplace's idea. With few labels the approximation costs up to 0.07, and always pulls towards 1/2.
TEST(Classifier, ProbabilitiesAreNearTheExactOnes) {
  double worst = 0.0;
  for (const uint64_t seed : {7, 8, 9, 10}) {
    const ClassifierPrior prior;
    Problem p = MakeProblem(5, 1, 4.0, seed);
    p.labels(0) = -1.0;
    const Classifier fit = Fit(p);
    MatrixXd points(8, 1);
    points << p.x, 0.1, 0.5, 0.9;
    const MatrixXd root =
        (Covariance(p, points, prior) + 1e-10 * MatrixXd::Identity(8, 8)).llt().matrixL().toDenseMatrix();
    base::RandomStream stream(seed, "test/importance");
    VectorXd sums = VectorXd::Zero(3);
    double total = 0.0;
    const int draws = 20000;
    for (int k = 0; k < draws; ++k) {
      const VectorXd f = (root * RandomNormals(stream, 8)).array() + prior.mean;
      double weight = 1.0;
      for (Index i = 0; i < 5; ++i) weight *= math::NormalCdf(p.labels(i) * f(i));
      total += weight;
      for (Index i = 0; i < 3; ++i) sums(i) += weight * math::NormalCdf(f(5 + i));
    }
    const VectorXd approximate = fit.LogProbabilities(points.bottomRows(3)).array().exp();
    worst = std::max(worst, (approximate - sums / total).cwiseAbs().maxCoeff());
    EXPECT_NEAR(fit.log_evidence(), std::log(total / draws), 0.15);
  }
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 0.08);
}

// One label: one-dimensional, so quadrature does for the latent's moments and the evidence.
TEST(Classifier, OneLabelAgreesWithQuadrature) {
  for (const double label : {1.0, -1.0}) {
    const ClassifierPrior prior;
    Problem p = MakeProblem(1, 1, 2.0, 11);
    p.labels(0) = label;
    const Classifier fit = Fit(p);
    const double variance = 2.0 + prior.variance;
    double z = 0.0, one = 0.0;
    for (int k = -8000; k <= 8000; ++k) {
      const double f = prior.mean + 1e-3 * k * std::sqrt(variance);
      const double t = 1e-3 * k;
      const double weight = std::exp(-0.5 * t * t) * math::NormalCdf(label * f);
      z += weight;
      one += weight * math::NormalCdf(f);
    }
    EXPECT_NEAR(fit.log_evidence(), std::log(1e-3 * z / std::sqrt(2.0 * M_PI)), 0.05);
    EXPECT_NEAR(std::exp(fit.LogProbability(p.x.row(0).transpose(), nullptr)), one / z, 0.06);
  }
}

TEST(Classifier, SearchImprovesAndIsDeterministic) {
  const Problem p = MakeProblem(60, 4, 1.0, 12);
  const Hyperparameters found =
      FitClassifierHyperparameters(p.shape, p.x, p.labels, std::nullopt, 40, {}, base::StopToken()).value();
  const Hyperparameters again =
      FitClassifierHyperparameters(p.shape, p.x, p.labels, std::nullopt, 40, {}, base::StopToken()).value();
  EXPECT_EQ(found.lengthscales, again.lengthscales);
  EXPECT_EQ(found.signal_variance, again.signal_variance);
  // Only the first coordinate matters.
  EXPECT_LT(found.lengthscales(0), found.lengthscales.tail(3).minCoeff());
  const Hyperparameters carried =
      FitClassifierHyperparameters(p.shape, p.x, p.labels, found, 40, {}, base::StopToken()).value();
  EXPECT_NEAR(std::log(carried.lengthscales(0) / found.lengthscales(0)), 0.0, 0.1);
}

TEST(Classifier, HardInputsGiveFiniteProbabilities) {
  // All of one class, duplicates of both classes, a huge signal, one row.
  for (const double signal : {1e-3, 1.0, 1000.0}) {
    for (int kind = 0; kind < 4; ++kind) {
      Problem p = MakeProblem(kind == 3 ? 1 : 200, 2, signal, 13);
      if (kind == 0) p.labels.setConstant(-1.0);
      if (kind == 1) p.x.rowwise() = p.x.row(0).eval();
      if (kind == 2) p.theta.lengthscales.setConstant(1e-3);
      const std::optional<Classifier> fit =
          Classifier::Fit(p.shape, p.theta, p.x, p.labels, {}, nullptr, base::StopToken()).value();
      ASSERT_TRUE(fit.has_value());
      const VectorXd logs = fit->LogProbabilities(p.x);
      EXPECT_TRUE(logs.allFinite());
      EXPECT_LE(logs.maxCoeff(), 0.0);
      if (kind == 0) {
        EXPECT_LT(logs.maxCoeff(), std::log(0.5));
      }
    }
  }
  Problem p = MakeProblem(5, 2, 1.0, 14);
  p.x(2, 1) = NAN;
  EXPECT_FALSE(Classifier::Fit(p.shape, p.theta, p.x, p.labels, {}, nullptr, base::StopToken()).value().has_value());
}

}  // namespace
}  // namespace luthier::gp
