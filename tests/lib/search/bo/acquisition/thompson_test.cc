#include "lib/search/bo/acquisition/thompson.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/search/random_points.h"

namespace luthier::search {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using kernels::Family;

const Family kFamilies[] = {Family::kSquaredExponential, Family::kMatern52};

gp::Regression SomeRegression(Family family, int n, double noise = 1e-6) {
  const MatrixXd x = RandomPoints(n, 2, 1);
  VectorXd y(n);
  for (int i = 0; i < n; ++i) y(i) = std::sin(4.0 * x(i, 0)) + x(i, 1);
  gp::Hyperparameters theta;
  theta.lengthscales = (VectorXd(2) << 0.4, 0.7).finished();
  theta.signal_variance = 1.7;
  theta.noise_variance = noise;
  theta.mean = 0.4;
  return *gp::Regression::Fit(kernels::ArdShape(family, 2), theta, x, y, {}, base::StopToken()).value();
}

TEST(SpectralFrequencies, ReproduceTheirKernel) {
  const MatrixXd x = RandomPoints(40, 3, 2);
  std::vector<kernels::KernelShape> shapes;
  for (const Family family : kFamilies) {
    for (const kernels::Structure structure :
         {kernels::Structure::kJoint, kernels::Structure::kAdditive, kernels::Structure::kPairwise}) {
      shapes.push_back(kernels::ArdShape(family, 3, structure));
    }
  }
  for (const kernels::KernelShape& shape : shapes) {
    const kernels::StationaryKernel kernel(shape, (VectorXd(3) << 0.3, 0.6, 1.5).finished(), 2.0, 0.7);
    for (const SpectralSampling sampling : {SpectralSampling::kPlain, SpectralSampling::kStratified}) {
      const int m = 1024, draws = 8;
      double squares = 0.0, largest = 0.0;
      MatrixXd mean = MatrixXd::Zero(40, 40);
      for (uint64_t draw = 0; draw < draws; ++draw) {
        base::RandomStream random(3, "frequencies", draw);
        const SpectralSample sample = SpectralFrequencies(kernel, m, sampling, random);
        ASSERT_EQ(sample.frequencies.rows(), m);
        ASSERT_EQ(sample.frequencies.cols(), 3);
        MatrixXd phi(40, m);
        for (int i = 0; i < m; ++i) {
          const double phase = 2.0 * M_PI * random.Uniform();
          const double amplitude = std::sqrt(4.0 * sample.weights(i) / m);
          for (int a = 0; a < 40; ++a)
            phi(a, i) = amplitude * std::cos(x.row(a).dot(sample.frequencies.row(i)) + phase);
        }
        const MatrixXd error = (phi * phi.transpose() - kernel.Gram(x)) / 2.0;
        squares += error.squaredNorm() / 1600.0;
        largest = std::max(largest, error.cwiseAbs().maxCoeff());
        mean += error / draws;
      }
      EXPECT_LT(std::sqrt(squares / draws), sampling == SpectralSampling::kPlain ? 0.037 : 0.05)
          << kernels::ShapeName(shape);
      EXPECT_LT(largest, 0.2) << kernels::ShapeName(shape);
      EXPECT_LT(std::sqrt(mean.squaredNorm() / 1600.0), 0.02) << kernels::ShapeName(shape);  // No bias.
    }
  }
}

TEST(SpectralFrequencies, WeightsMakeTheTailUnbiased) {
  // The share of Matern-5/2's radial spectrum beyond a high frequency, in one dimension: P(|omega| > r) with omega a
  // Student t of 5 degrees of freedom, 1 - (2/pi)(atan(x) + x/(1 + x^2) + 2x/(3 (1 + x^2)^2)), x = r/sqrt5.
  const kernels::StationaryKernel kernel(kernels::ArdShape(Family::kMatern52, 1), VectorXd::Ones(1), 1.0);
  base::RandomStream random(30, "tail");
  const int m = 100000;
  for (const int count : {m, 1000, 7}) {
    double weight = 0.0, beyond = 0.0;
    for (int drawn = 0; drawn < m; drawn += count) {
      const SpectralSample sample = SpectralFrequencies(kernel, count, SpectralSampling::kStratified, random);
      for (int i = 0; i < count; ++i) {
        weight += sample.weights(i) / m;
        if (std::abs(sample.frequencies(i, 0)) > 10.0) beyond += sample.weights(i) / m;
      }
      EXPECT_LE(sample.weights.maxCoeff(), 2.0);
    }
    const double x = 10.0 / std::sqrt(5.0), square = 1.0 + x * x;
    const double expected = 1.0 - 2.0 / M_PI * (std::atan(x) + x / square + 2.0 * x / (3.0 * square * square));
    EXPECT_NEAR(weight, 1.0, 0.02) << count;
    EXPECT_NEAR(beyond / expected, 1.0, 0.12) << count;
  }
}

TEST(SpectralFrequencies, ColumnsOfOneParameterShareTheirLength) {
  const kernels::StationaryKernel kernel(kernels::GroupedShape(Family::kSquaredExponential, {0, 1, 1}),
                                         (VectorXd(2) << 0.5, 0.1).finished(), 1.0);
  base::RandomStream random(4, "grouped");
  const SpectralSample sample = SpectralFrequencies(kernel, 4000, SpectralSampling::kStratified, random);
  EXPECT_EQ(sample.weights, VectorXd::Ones(4000));
  EXPECT_NEAR(std::sqrt(sample.frequencies.col(0).squaredNorm() / 4000.0), 2.0, 0.1);
  EXPECT_NEAR(std::sqrt(sample.frequencies.col(1).squaredNorm() / 4000.0), 10.0, 0.5);
  EXPECT_NEAR(std::sqrt(sample.frequencies.col(2).squaredNorm() / 4000.0), 10.0, 0.5);
}

// Column k holds the draws at point k.
MatrixXd PathwiseDraws(const gp::Regression& model, const MatrixXd& at, int draws, int features) {
  MatrixXd values(draws, at.rows());
  for (int i = 0; i < draws; ++i) {
    values.row(i) = FunctionDraw::Pathwise(model, features, base::RandomStream(5, "path", static_cast<uint64_t>(i)),
                                           base::StopToken())
                        .value()
                        ->Values(at)
                        .transpose();
  }
  return values;
}

void ExpectMoments(const MatrixXd& draws, const gp::Posterior& posterior, const char* what) {
  const double n = static_cast<double>(draws.rows());
  for (int k = 0; k < draws.cols(); ++k) {
    const double mean = draws.col(k).mean();
    const double variance = (draws.col(k).array() - mean).square().sum() / (n - 1.0);
    EXPECT_NEAR(mean, posterior.mean(k), 4.0 * std::sqrt(posterior.variance(k) / n)) << what << " " << k;
    EXPECT_GT(variance / posterior.variance(k), 0.85) << what << " " << k;
    EXPECT_LT(variance / posterior.variance(k), 1.15) << what << " " << k;
  }
}

TEST(FunctionDraw, PathwiseHasThePosteriorsMoments) {
  const MatrixXd at = RandomPoints(20, 2, 7);
  for (const Family family : {Family::kSquaredExponential, Family::kMatern52}) {
    const gp::Regression model = SomeRegression(family, 10, 1e-4);
    ExpectMoments(PathwiseDraws(model, at, 2000, 192), model.Predict(at), kernels::FamilyName(family).c_str());
  }
  const gp::Regression prior = SomeRegression(Family::kMatern52, 0);
  ExpectMoments(PathwiseDraws(prior, at, 2000, 192), prior.Predict(at), "prior");
}

TEST(FunctionDraw, PathwiseCovariesLikeThePosterior) {
  const MatrixXd at = RandomPoints(6, 2, 8);
  const gp::Regression model = SomeRegression(Family::kMatern52, 8, 1e-4);
  MatrixXd draws = PathwiseDraws(model, at, 2000, 192);
  draws.rowwise() -= model.PredictMean(at).transpose();
  const MatrixXd covariance = draws.transpose() * draws / 2000.0;
  const MatrixXd expected = model.JointCovariance(at, base::StopToken()).value();
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) {
      EXPECT_NEAR(covariance(i, j), expected(i, j), 0.12 * std::sqrt(expected(i, i) * expected(j, j)));
    }
  }
}

TEST(FunctionDraw, PathwiseIsNormalEvenWhereDataAreDense) {
  // 100 points: what is left to vary are waves that plain features hardly ever hold.
  const gp::Regression model = SomeRegression(Family::kMatern52, 100, 1e-8);
  const MatrixXd at = RandomPoints(25, 2, 31);
  const int draws = 400;
  const gp::Posterior posterior = model.Predict(at);
  MatrixXd z = PathwiseDraws(model, at, draws, 512);
  for (int k = 0; k < 25; ++k) z.col(k) = (z.col(k).array() - posterior.mean(k)) / std::sqrt(posterior.variance(k));
  EXPECT_NEAR(z.cwiseAbs2().mean(), 1.0, 0.1);
  EXPECT_LT(z.array().square().square().mean(), 3.0 * 1.7);  // A normal's is 3; plain features give more than 30.
  const Eigen::ArrayXd own = z.cwiseAbs2().colwise().mean();
  EXPECT_GT(own.minCoeff(), 0.7);
  EXPECT_LT(own.maxCoeff(), 1.4);
}

TEST(FunctionDraw, GoesThroughTheData) {
  for (const Family family : kFamilies) {
    const double noise = 1e-4;
    const gp::Regression model = SomeRegression(family, 25, noise);
    const MatrixXd x = RandomPoints(25, 2, 1);
    for (uint64_t i = 0; i < 5; ++i) {
      const VectorXd path =
          FunctionDraw::Pathwise(model, kPathwiseFeatures, base::RandomStream(9, "through", i), base::StopToken())
              .value()
              ->Values(x);
      EXPECT_LT((path - model.outputs()).cwiseAbs().maxCoeff(), 4.5 * std::sqrt(noise)) << kernels::FamilyName(family);
    }
  }
}

TEST(FunctionDraw, GradientMatchesDifferencesAndBatchesMatch) {
  const MatrixXd at = RandomPoints(130, 2, 10);
  for (const Family family : kFamilies) {
    const gp::Regression model = SomeRegression(family, 12);
    const FunctionDraw path =
        *FunctionDraw::Pathwise(model, kPathwiseFeatures, base::RandomStream(11, "gradient"), base::StopToken())
             .value();
    const FunctionDraw rff =
        *FunctionDraw::FourierFeatures(model, kFourierFeatures, base::RandomStream(11, "gradient"), base::StopToken())
             .value();
    for (const FunctionDraw* draw : {&path, &rff}) {
      const VectorXd values = draw->Values(at);
      for (int i = 0; i < 130; i += 13) {
        VectorXd gradient;
        const VectorXd u = at.row(i).transpose();
        EXPECT_NEAR(draw->Value(u, &gradient), values(i), 1e-6);
        EXPECT_NEAR(draw->Value(u, nullptr), values(i), 1e-6);
        const math::GradientCheck check =
            math::CheckGradient([&](const VectorXd& x) { return draw->Value(x, nullptr); }, u, gradient);
        EXPECT_LT(check.error, 1e-4) << check.Summary();
      }
    }
  }
}

TEST(FunctionDraw, IsAFunctionOfItsStream) {
  const gp::Regression model = SomeRegression(Family::kMatern52, 12);
  const MatrixXd at = RandomPoints(5, 2, 12);
  const VectorXd a =
      FunctionDraw::Pathwise(model, 64, base::RandomStream(1, "same"), base::StopToken()).value()->Values(at);
  EXPECT_EQ(a, FunctionDraw::Pathwise(model, 64, base::RandomStream(1, "same"), base::StopToken()).value()->Values(at));
  EXPECT_NE(a, FunctionDraw::Pathwise(model, 64, base::RandomStream(2, "same"), base::StopToken()).value()->Values(at));
}

TEST(FunctionDraw, FourierFeaturesSolveTheirOwnRegression) {
  // With many features the weight-space posterior nears the exact one.
  const gp::Regression model = SomeRegression(Family::kSquaredExponential, 8, 1e-3);
  const MatrixXd at = RandomPoints(8, 2, 13);
  const int draws = 300;
  MatrixXd values(draws, 8);
  for (int i = 0; i < draws; ++i) {
    values.row(i) = FunctionDraw::FourierFeatures(model, 200, base::RandomStream(14, "rff", static_cast<uint64_t>(i)),
                                                  base::StopToken())
                        .value()
                        ->Values(at)
                        .transpose();
  }
  const gp::Posterior exact = model.Predict(at);
  for (int k = 0; k < 8; ++k) {
    EXPECT_NEAR(values.col(k).mean(), exact.mean(k), 0.1 + std::sqrt(exact.variance(k)) * 0.4);
  }
  // Without data: the prior.
  const gp::Regression prior = SomeRegression(Family::kSquaredExponential, 0);
  double sum = 0.0;
  for (int i = 0; i < 500; ++i) {
    const VectorXd v = FunctionDraw::FourierFeatures(
                           prior, 100, base::RandomStream(15, "rff", static_cast<uint64_t>(i)), base::StopToken())
                           .value()
                           ->Values(at);
    sum += (v.array() - 0.4).square().mean();
  }
  EXPECT_NEAR(sum / 500.0, 1.7, 0.2);
}

TEST(FunctionDraw, FourierFeaturesStarveWherePathsDoNot) {
  // All data 0 in one quarter of the square: 50 features have no freedom left for the other end of it.
  const MatrixXd x = 0.5 * RandomPoints(60, 2, 16);
  gp::Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(2, 0.1);
  theta.noise_variance = 1e-6;
  const gp::Regression model =
      *gp::Regression::Fit(kernels::ArdShape(Family::kMatern52, 2), theta, x, VectorXd::Zero(60), {}, base::StopToken())
           .value();
  const MatrixXd far = VectorXd::Constant(2, 0.98).transpose();
  double paths = 0.0, features = 0.0;
  for (uint64_t i = 0; i < 200; ++i) {
    paths += std::pow(
        FunctionDraw::Pathwise(model, 256, base::RandomStream(17, "far", i), base::StopToken()).value()->Values(far)(0),
        2);
    features += std::pow(FunctionDraw::FourierFeatures(model, 50, base::RandomStream(17, "far", i), base::StopToken())
                             .value()
                             ->Values(far)(0),
                         2);
  }
  EXPECT_NEAR(paths / 200.0, 1.0, 0.4);  // The prior's variance.
  EXPECT_LT(features / 200.0, 0.5);
}

}  // namespace
}  // namespace luthier::search
