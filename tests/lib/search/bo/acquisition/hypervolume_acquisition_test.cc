#include "lib/search/bo/acquisition/hypervolume_acquisition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/math/sobol.h"
#include "lib/pareto/hypervolume.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Results of two metrics on the unit square, and regressions of them.
struct TwoMetrics {
  // With `slopes` the results have gradients.
  explicit TwoMetrics(double noise = 1e-8, bool slopes = false) : x(12, 2), y(12, 2) {
    base::RandomStream random(3, "test/metrics");
    for (double& v : x.reshaped()) v = random.Uniform();
    y.col(0) = (3.0 * x.col(0)).array().sin() + x.col(1).array();
    y.col(1) = 1.0 - x.col(0).array().square() - 0.5 * x.col(1).array();
    for (Index j = 0; j < 2; ++j) {
      gp::Hyperparameters theta;
      theta.lengthscales = VectorXd::Constant(2, 0.4 + 0.1 * static_cast<double>(j));
      theta.signal_variance = 0.8;
      theta.noise_variance = noise;
      theta.mean = 0.3;
      gp::Slopes reported;
      for (Index i = 0; slopes && i < 12; ++i) {
        const VectorXd of_first = (VectorXd(2) << 3.0 * std::cos(3.0 * x(i, 0)), 1.0).finished();
        const VectorXd of_second = (VectorXd(2) << -2.0 * x(i, 0), -0.5).finished();
        reported.AddGradient(i, j == 0 ? of_first : of_second);
      }
      theta.slope_noise_variance = 1e-6;
      models.push_back(*gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta, x, y.col(j),
                                            reported, base::StopToken())
                            .value());
    }
    reference = (VectorXd(2) << -0.5, -0.5).finished();
  }

  MetricPosterior Draw(Index metric, const MatrixXd& points, const MatrixXd& normals) const {
    return *MetricPosterior::Draw(&models[static_cast<size_t>(metric)], points, normals, base::StopToken()).value();
  }

  MatrixXd x, y;
  std::vector<gp::Regression> models;
  VectorXd reference;
};

MatrixXd Normals(Index rows, Index columns, const char* purpose) {
  base::RandomStream random(9, purpose);
  MatrixXd normals(rows, columns);
  for (double& n : normals.reshaped()) n = random.Normal();
  return normals;
}

void ExpectTheRegressionWithFurtherResults(const TwoMetrics& two) {
  const MatrixXd points = (MatrixXd(2, 2) << 0.1, 0.9, 0.7, 0.35).finished();
  const MetricPosterior drawn = two.Draw(0, points, Normals(2, 3, "test/normals"));
  MatrixXd u(4, 2), mean;
  u << 0.2, 0.8, 0.5, 0.5, 0.9, 0.1, 0.7, 0.35;
  VectorXd deviation;
  drawn.Predict(u, &mean, &deviation);
  for (Index f = 0; f < 3; ++f) {
    gp::Regression longer = two.models[0];  // Its noise is 1e-8, which is nearly none.
    for (Index i = 0; i < 2; ++i) {
      ASSERT_TRUE(longer.Append(points.row(i).transpose(), drawn.values()(i, f), base::StopToken()).value());
    }
    const gp::Posterior expected = longer.Predict(u);
    for (Index i = 0; i < 4; ++i) {
      EXPECT_NEAR(mean(i, f), expected.mean(i), 1e-6);
      EXPECT_NEAR(deviation(i) * deviation(i), expected.variance(i), 1e-6);
    }
    EXPECT_NEAR(mean(3, f), drawn.values()(1, f), 1e-6) << "at a drawn point";
  }
}

TEST(MetricPosterior, GivenDrawnValuesItIsTheRegressionWithTheseAsFurtherResults) {
  ExpectTheRegressionWithFurtherResults(TwoMetrics());
}

TEST(MetricPosterior, TheSameWithGradients) {
  const TwoMetrics two(1e-8, /*slopes=*/true);
  ASSERT_EQ(two.models[0].rows(), 12 + 24);
  ExpectTheRegressionWithFurtherResults(two);
  // The gradient at a point is that of differences.
  const MatrixXd points = (MatrixXd(2, 2) << 0.1, 0.9, 0.7, 0.35).finished();
  const MetricPosterior drawn = two.Draw(0, points, Normals(2, 3, "test/normals"));
  const VectorXd u = (VectorXd(2) << 0.45, 0.6).finished();
  const MetricPosterior::AtPoint at = drawn.PredictWithGradient(u);
  for (Index k = 0; k < 2; ++k) {
    constexpr double kStep = 1e-5;
    const MetricPosterior::AtPoint above = drawn.PredictWithGradient(u + kStep * VectorXd::Unit(2, k)),
                                   below = drawn.PredictWithGradient(u - kStep * VectorXd::Unit(2, k));
    for (Index f = 0; f < 3; ++f) {
      EXPECT_NEAR(at.mean_gradient(k, f), (above.mean(f) - below.mean(f)) / (2.0 * kStep), 1e-5);
    }
    EXPECT_NEAR(at.deviation_gradient(k), (above.deviation - below.deviation) / (2.0 * kStep), 1e-5);
  }
}

TEST(MetricPosterior, DrawsHaveTheRegressionsMeanAndCovariance) {
  const TwoMetrics two(0.1);
  const MatrixXd points = (MatrixXd(3, 2) << 0.1, 0.9, 0.2, 0.8, 0.7, 0.35).finished();
  const Index draws = 20'000;
  const MetricPosterior drawn = two.Draw(1, points, Normals(3, draws, "test/normals"));
  const MatrixXd centred = drawn.values().colwise() - two.models[1].PredictMean(points);
  EXPECT_LT(centred.rowwise().mean().cwiseAbs().maxCoeff(), 0.01);
  const MatrixXd covariance = two.models[1].JointCovariance(points, base::StopToken()).value();
  EXPECT_LT((centred * centred.transpose() / draws - covariance).cwiseAbs().maxCoeff(), 0.01);
}

TEST(MetricPosterior, WhatIsKnownAlreadyIsDrawnAsItIs) {
  const TwoMetrics two;
  const MetricPosterior drawn = two.Draw(0, two.x.topRows(4), Normals(4, 5, "test/normals"));
  for (Index f = 0; f < 5; ++f) EXPECT_LT((drawn.values().col(f) - two.y.col(0).head(4)).norm(), 1e-3);
}

TEST(HypervolumeAcquisition, WithoutDrawsIsTheExactImprovementUnderThePosteriors) {
  const TwoMetrics two;
  const auto improvement = *HypervolumeImprovement::Create(two.y, two.reference);
  const HypervolumeAcquisition acquisition({MetricPosterior(&two.models[0]), MetricPosterior(&two.models[1])},
                                           {improvement});
  const VectorXd u = (VectorXd(2) << 0.4, 0.6).finished();
  VectorXd mean(2), deviation(2);
  for (Index j = 0; j < 2; ++j) {
    const gp::Posterior posterior = two.models[static_cast<size_t>(j)].Predict(u.transpose());
    mean(j) = posterior.mean(0);
    deviation(j) = std::sqrt(posterior.variance(0));
  }
  EXPECT_NEAR(acquisition.Value(u, nullptr), improvement.Log(mean, deviation, nullptr, nullptr), 1e-12);
}

// E [HV(front + p + u) - HV(front)] = EHVI(p) + E_f(p) EHVI(u | f(p)): what a batch of two gains, by sampling both at
// once, and by the acquisition of the second given draws of the first.
TEST(HypervolumeAcquisition, WithDrawsOfAPendingTrialChoosesTheSecondOfABatch) {
  constexpr Index kDraws = 4096;
  const TwoMetrics two;
  const MatrixXd pending = (MatrixXd(1, 2) << 0.15, 0.5).finished();
  const VectorXd u = (VectorXd(2) << 0.3, 0.75).finished();
  const math::SobolSequence sobol(4, 1, "test/batch");
  const auto normal = [&](Index i, Index k) { return base::NormalQuantile(sobol.Point(static_cast<uint64_t>(i))(k)); };
  std::vector<MetricPosterior> drawn;
  for (Index j = 0; j < 2; ++j) {
    MatrixXd normals(1, kDraws);
    for (Index f = 0; f < kDraws; ++f) normals(0, f) = normal(f, j);
    drawn.push_back(two.Draw(j, pending, normals));
  }
  std::vector<HypervolumeImprovement> improvements;
  for (Index f = 0; f < kDraws; ++f) {
    MatrixXd front(two.y.rows() + 1, 2);
    front << two.y, drawn[0].values()(0, f), drawn[1].values()(0, f);
    improvements.push_back(*HypervolumeImprovement::Create(front, two.reference));
  }
  const HypervolumeAcquisition first({MetricPosterior(&two.models[0]), MetricPosterior(&two.models[1])},
                                     {*HypervolumeImprovement::Create(two.y, two.reference)});
  const double batch = std::exp(first.Value(pending.transpose(), nullptr)) +
                       std::exp(HypervolumeAcquisition(drawn, std::move(improvements)).Value(u, nullptr));
  MatrixXd both(2, 2);
  both << pending, u.transpose();
  std::vector<MatrixXd> joint;
  constexpr Index kSamples = 1 << 16;
  for (Index j = 0; j < 2; ++j) {
    MatrixXd normals(2, kSamples);
    for (Index i = 0; i < kSamples; ++i) normals.col(i) << normal(i, j), normal(i, 2 + j);
    joint.push_back(two.Draw(j, both, normals).values());
  }
  const double volume = *pareto::Hypervolume(two.y, two.reference);
  double sampled = 0.0;
  for (Index i = 0; i < kSamples; ++i) {
    MatrixXd front(two.y.rows() + 2, 2);
    front << two.y, joint[0](0, i), joint[1](0, i), joint[0](1, i), joint[1](1, i);
    sampled += (*pareto::Hypervolume(front, two.reference) - volume) / kSamples;
  }
  EXPECT_NEAR(batch / sampled, 1.0, 2e-3);
}

}  // namespace
}  // namespace luthier::search
