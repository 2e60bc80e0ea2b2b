#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyper_sampling.h"
#include "lib/gp/likelihood.h"
#include "lib/gp/regression.h"
#include "lib/gp/slopes.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/gp/gp_testing.h"
#include "tests/lib/gp/slopes_testing.h"

namespace luthier::gp {
namespace {

// phi = (ln l…, ln s, ln shape, ln noise, ln slope noise, m).
Hyperparameters FromLogs(const VectorXd& phi, Index groups) {
  Hyperparameters theta;
  theta.lengthscales = phi.head(groups).array().exp();
  theta.signal_variance = std::exp(phi(groups));
  theta.shape_parameter = std::exp(phi(groups + 1));
  theta.noise_variance = std::exp(phi(groups + 2));
  theta.slope_noise_variance = std::exp(phi(groups + 3));
  theta.mean = phi(groups + 4);
  return theta;
}

TEST(SlopeLikelihood, GradientsMatchDifferencesForEveryShape) {
  base::RandomStream stream(9, "slopes");
  const MatrixXd x = RandomPoints(stream, 18, 4);
  const Slopes slopes = MixedSlopes(stream, x);
  const VectorXd y = SmoothValues(x);
  for (const kernels::KernelShape& shape : ShapesWithSlopes({0, 1, 1, 2})) {
    Likelihood likelihood(shape, x, y, slopes);
    const VectorXd phi = (VectorXd(8) << -0.9, 0.1, -0.6, 0.3, 0.4, std::log(1e-2), std::log(3e-2), -0.3).finished();
    auto value = [&](const VectorXd& at, LikelihoodGradient* gradient) {
      return likelihood.Marginal(FromLogs(at, 3), gradient, base::StopToken()).value();
    };
    LikelihoodGradient g;
    EXPECT_NEAR(value(phi, &g), value(phi, nullptr), 1e-9);
    VectorXd analytic(8);
    analytic << g.log_lengthscales, g.log_signal_variance, g.log_shape_parameter, g.log_noise_variance,
        g.log_slope_noise_variance, g.mean;
    const math::GradientCheck check =
        math::CheckGradient([&](const VectorXd& at) { return value(at, nullptr); }, phi, analytic);
    EXPECT_LT(check.error, 1e-6) << kernels::ShapeName(shape) << ": " << check.Summary();
  }
}

TEST(SlopeLikelihood, MeanTakenOverIsTheRegressionsOwn) {
  base::RandomStream stream(10, "slopes");
  const MatrixXd x = RandomPoints(stream, 15, 3);
  const Slopes slopes = MixedSlopes(stream, x);
  const VectorXd y = SmoothValues(x).array() + 2.0;
  Hyperparameters theta = Theta(3, 0.6, 1e-3, 1e-2);
  Regression gp = *Regression::Fit(Shape(3), theta, x, y, slopes, base::StopToken()).value();
  gp.FitMean();
  Likelihood likelihood(Shape(3), x, y, slopes);
  const double best = likelihood.MarginalOverMean(&theta, nullptr, base::StopToken()).value();
  EXPECT_NEAR(gp.hyperparameters().mean, theta.mean, 1e-10);
  for (double shift : {-0.05, 0.05}) {
    Hyperparameters other = theta;
    other.mean += shift;
    EXPECT_LT(likelihood.Marginal(other, nullptr, base::StopToken()).value() - 0.5 * other.mean * other.mean, best);
  }
}

TEST(SlopeHyperPosterior, GradientMatchesDifferencesInEveryMode) {
  base::RandomStream stream(11, "slopes");
  const MatrixXd x = RandomPoints(stream, 15, 3);
  const Slopes slopes = MixedSlopes(stream, x);
  for (const kernels::KernelShape& shape :
       {Shape(3), kernels::ArdShape(Family::kMatern52, 3, kernels::Structure::kPairwise)}) {
    Likelihood likelihood(shape, x, SmoothValues(x), slopes);
    for (bool fitted : {false, true}) {
      InferenceOptions options;
      options.fit_noise = true;
      options.fit_slope_noise = fitted;
      options.fixed_slope_noise = 1e-2;
      const HyperPosterior posterior(&likelihood, options);
      VectorXd phi = VectorXd::Constant(posterior.dimension(), -0.4);
      phi(posterior.dimension() - 1) = -4.0;
      ExpectGradient(posterior, phi);
      EXPECT_LT((posterior.Pack(posterior.Unpack(phi)) - phi).cwiseAbs().maxCoeff(), 1e-12);
    }
  }
}

TEST(SlopeHyperPosterior, NoiseOfSlopesIsFoundApartFromThatOfValues) {
  base::RandomStream stream(12, "slopes");
  const Index n = 40;
  const MatrixXd x = RandomPoints(stream, n, 2);
  const VectorXd y = SmoothValues(x);
  for (double deviation : {0.0, 0.5}) {
    Slopes slopes;
    for (Index i = 0; i < n; ++i) {
      slopes.AddGradient(i, SmoothGradient(x.row(i)) + deviation * RandomNormals(stream, 2));
    }
    Likelihood likelihood(Shape(2), x, y, slopes);
    const InferenceResult result =
        MaximizePosterior(&likelihood, {}, std::nullopt, base::RandomStream(1, "map"), base::StopToken()).value();
    const double found = std::sqrt(result.theta.slope_noise_variance);
    if (deviation == 0.0) {
      EXPECT_LT(found, 0.05);
    } else {
      EXPECT_NEAR(found / deviation, 1.0, 0.25);
    }
    EXPECT_EQ(result.theta.noise_variance, 1e-6);
  }
}

TEST(SlopeHyperPosterior, SamplerDrawsTheSlopeNoiseToo) {
  base::RandomStream stream(13, "slopes");
  const MatrixXd x = RandomPoints(stream, 8, 2);
  Slopes slopes;
  for (Index i = 0; i < x.rows(); ++i) slopes.AddGradient(i, SmoothGradient(x.row(i)));
  for (PriorKind prior : {PriorKind::kDimensionScaled, PriorKind::kThesis}) {
    Likelihood likelihood(Shape(2), x, SmoothValues(x), slopes);
    SamplingOptions options;
    options.inference.prior = prior;
    options.burn_in = 3;
    options.states = 3;
    const SamplingResult result = SampleHyperparameters(&likelihood, options, std::nullopt, std::nullopt,
                                                        base::RandomStream(1, "chain"), base::StopToken())
                                      .value();
    ASSERT_EQ(result.states.size(), 3u);
    EXPECT_GT(result.states[0].slope_noise_variance, 0.0);
    EXPECT_NE(result.states[0].slope_noise_variance, result.states[2].slope_noise_variance);
    EXPECT_TRUE(std::isfinite(likelihood.Marginal(result.states[2], nullptr, base::StopToken()).value()));
  }
}

TEST(Slopes, RowsWithinALimitKeepTheBestAndTheNewest) {
  // Six points with two slopes each: 18 rows.
  std::vector<Index> points;
  for (Index i = 0; i < 6; ++i) points.insert(points.end(), {i, i});
  const VectorXd scores = (VectorXd(6) << 0.0, 9.0, 1.0, 8.0, 2.0, 3.0).finished();
  auto kept = [&](Index rows, Index spared) { return SlopesWithin(points, scores, rows, spared); };
  EXPECT_EQ(kept(18, 0).size(), 12u);
  EXPECT_EQ(kept(15, 0), (std::vector<Index>{3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(kept(15, 2), (std::vector<Index>{2, 3, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(kept(3, 2), (std::vector<Index>{2, 3, 6, 7}));
  EXPECT_EQ(kept(3, 0), std::vector<Index>());
  EXPECT_EQ(SlopesWithin({}, VectorXd(0)), std::vector<Index>());
}

TEST(Slopes, ComponentsThatAreNotFiniteAreDroppedOneByOne) {
  Slopes slopes;
  slopes.AddGradient(1, (VectorXd(3) << 0.5, NAN, -2.0).finished(), 0.1);
  slopes.AddGradient(0, (VectorXd(3) << INFINITY, -INFINITY, NAN).finished());
  EXPECT_EQ(slopes.size(), 2);
  EXPECT_EQ(slopes.values, (VectorXd(2) << 0.5, -2.0).finished());
  EXPECT_EQ(slopes.directions.row(1), Eigen::RowVectorXd::Unit(3, 2));
  EXPECT_TRUE(slopes.Valid(2, 3));
  const Slopes last = slopes.Select({1});
  EXPECT_EQ(last.values(0), -2.0);
  EXPECT_EQ(last.points[0], 1);
}

TEST(Slopes, DifferencesAreWorseForNoiseAndForLongSteps) {
  EXPECT_DOUBLE_EQ(DifferenceVariance(1e-8, 1e-2, 0.0), 2e-4);
  EXPECT_DOUBLE_EQ(DifferenceVariance(0.0, 1e-2, 4.0), 4e-4);
}

}  // namespace
}  // namespace luthier::gp
