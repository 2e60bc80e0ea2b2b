#include "lib/gp/hyper_sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

// One parameter's prior by its textbook density, tabulated over ln theta.
class Marginal {
 public:
  // log_density: of theta, up to a constant.
  Marginal(const std::function<double(double)>& log_density, double low, double high)
      : low_(std::log(low)), high_(std::log(high)), cdf_(kCells + 1) {
    std::vector<double> density(kCells + 1);
    for (int i = 0; i <= kCells; ++i) density[static_cast<size_t>(i)] = std::exp(log_density(std::exp(At(i))) + At(i));
    for (size_t i = 1; i <= kCells; ++i) cdf_[i] = cdf_[i - 1] + 0.5 * (density[i - 1] + density[i]);
    for (double& c : cdf_) c /= cdf_.back();
  }
  double Cdf(double theta) const {
    const double cell = std::clamp((std::log(theta) - low_) / (high_ - low_), 0.0, 1.0) * kCells;
    const size_t i = std::min(static_cast<size_t>(cell), static_cast<size_t>(kCells) - 1);
    return cdf_[i] + (cell - static_cast<double>(i)) * (cdf_[i + 1] - cdf_[i]);
  }
  double Draw(base::RandomStream& random) const {
    const double p = random.UniformOpen();
    double a = low_, b = high_;
    for (int k = 0; k < 60; ++k) (Cdf(std::exp(0.5 * (a + b))) < p ? a : b) = 0.5 * (a + b);
    return std::exp(0.5 * (a + b));
  }

 private:
  static constexpr int kCells = 20000;
  double At(int i) const { return low_ + (high_ - low_) * i / kCells; }

  double low_, high_;
  std::vector<double> cdf_;
};

struct Priors {
  std::function<double(double)> lengthscale, signal, noise;
  double min_lengthscale, max_lengthscale, min_noise;
  double diagonal = 0.0;
};

double LogNormal(double theta, double mu, double sigma) {
  const double z = (std::log(theta) - mu) / sigma;
  return -std::log(theta) - 0.5 * z * z;
}

Priors PriorsOf(PriorKind kind, int d) {
  if (kind == PriorKind::kThesis) {
    return {[](double) { return 0.0; },
            [](double s) { return LogNormal(s, 0, 1); },
            [](double v) { return std::log(std::log(1.0 + 3.0 * std::pow(0.1 / v, 2))); },
            1e-11,
            10.0,
            1e-10,
            1e-6};
  }
  return {[d](double l) { return LogNormal(l, std::sqrt(2.0) + 0.5 * std::log(d), std::sqrt(3.0)); },
          [](double s) { return LogNormal(s, 0, 1); },
          [](double v) { return LogNormal(v, -4, 3); },
          0.025,
          100.0,
          1e-4};
}

// P(Kolmogorov's statistic of n uniforms exceeds what was seen).
double KolmogorovP(std::vector<double> uniforms) {
  std::sort(uniforms.begin(), uniforms.end());
  const double n = static_cast<double>(uniforms.size());
  double d = 0.0;
  for (size_t i = 0; i < uniforms.size(); ++i) {
    d = std::max({d, uniforms[i] - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - uniforms[i]});
  }
  const double lambda = (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n)) * d;
  double p = 0.0;
  for (int k = 1; k <= 100; ++k) p += (k % 2 == 1 ? 2.0 : -2.0) * std::exp(-2.0 * k * k * lambda * lambda);
  return lambda < 0.2 ? 1.0 : p;
}

SamplingOptions Options(PriorKind kind, int burn_in, int states) {
  SamplingOptions options;
  options.inference.prior = kind;
  options.inference.fit_noise = true;
  options.burn_in = burn_in;
  options.states = states;
  return options;
}

// Priors with a doubted noise beside those that are.
struct Case {
  PriorKind prior;
  bool doubt;
};
constexpr Case kCases[] = {
    {PriorKind::kDimensionScaled, false}, {PriorKind::kDimensionScaled, true}, {PriorKind::kThesis, false}};
constexpr PriorKind kKinds[] = {PriorKind::kDimensionScaled, PriorKind::kThesis};

TEST(ChainDensity, IsLikelihoodTimesPriorByTheTextbook) {
  base::RandomStream random(1, "density");
  const MatrixXd x = RandomPoints(random, 7, 2);
  const VectorXd y = RandomNormals(random, 7);
  for (PriorKind kind : kKinds) {
    Likelihood likelihood(Shape(2), x, y);
    const ChainDensity density(&likelihood, Options(kind, 0, 1).inference);
    ASSERT_EQ(density.dimension(), 5);
    const auto at_chain = [&](const VectorXd& at) { return density.Value(at, base::StopToken()).value(); };
    const Priors priors = PriorsOf(kind, 2);
    auto brute = [&](const VectorXd& chain) {
      const bool natural = kind == PriorKind::kThesis;
      VectorXd theta = chain;
      if (!natural) theta.head(4) = chain.head(4).array().exp();
      Hyperparameters h;
      h.lengthscales = theta.head(2);
      h.signal_variance = theta(2);
      h.noise_variance = theta(3) + priors.diagonal;
      h.mean = theta(4);
      const MatrixXd c = DenseCovariance(Shape(2), h, x);
      const VectorXd r = y.array() - h.mean;
      double value = -0.5 * r.dot(c.inverse() * r) - 0.5 * std::log(c.determinant()) - 0.5 * 7 * std::log(2 * M_PI);
      value += priors.lengthscale(theta(0)) + priors.lengthscale(theta(1)) + priors.signal(theta(2)) +
               priors.noise(theta(3)) - 0.5 * theta(4) * theta(4);
      if (!natural) value += chain.head(4).sum();
      return value;
    };
    const VectorXd mode = density.Mode();
    for (int k = 0; k < 20; ++k) {
      VectorXd at = mode;
      for (Index j = 0; j < 4; ++j) at(j) *= 1.0 + 0.3 * random.Uniform();
      at(4) = random.Normal();
      // Constants apart.
      EXPECT_NEAR(at_chain(at) - at_chain(mode), brute(at) - brute(mode), 1e-9);
    }
    const Hyperparameters theta = density.Unpack(mode);
    EXPECT_LT((density.Pack(theta) - mode).cwiseAbs().maxCoeff(), 1e-8);
    VectorXd outside = mode;
    outside(0) = kind == PriorKind::kThesis ? 10.1 : std::log(100.1);
    EXPECT_EQ(at_chain(outside), -INFINITY);
    outside(0) = kind == PriorKind::kThesis ? -0.1 : std::log(0.0249);
    EXPECT_EQ(at_chain(outside), -INFINITY);
    outside = mode;
    outside(3) = kind == PriorKind::kThesis ? 0.99e-10 : std::log(0.99e-4);  // The pole is cut off.
    EXPECT_EQ(at_chain(outside), -INFINITY);
    outside(3) = NAN;
    EXPECT_EQ(at_chain(outside), -INFINITY);
  }
}

TEST(ChainDensity, StartsOnABoundAreInside) {
  Likelihood likelihood(Shape(2), MatrixXd::Random(4, 2), VectorXd::LinSpaced(4, -1, 1));
  for (PriorKind kind : kKinds) {
    const ChainDensity density(&likelihood, Options(kind, 0, 1).inference);
    Hyperparameters theta;
    theta.lengthscales = (VectorXd(2) << 1e-300, 1e300).finished();
    theta.noise_variance = 0.0;
    theta.signal_variance = 1e300;
    EXPECT_TRUE(std::isfinite(density.Value(density.Pack(theta), base::StopToken()).value()));
  }
}

// Parameters drawn from the prior, data from the parameters, a few sweeps under those data: the parameters still have
// the prior's distribution (Geweke 2004). Any error in density, blocks or steps shows.
TEST(SampleHyperparameters, SweepsLeaveThePriorInvariantWithAndWithoutData) {
  constexpr int kChains = 1200;
  for (const auto& [kind, doubt] : kCases) {
    Priors priors = PriorsOf(kind, 2);
    // Of ln sigma_n^2 the density is 1/sigma_n^2.
    if (doubt) priors.noise = [](double v) { return -2.0 * std::log(v); };
    const Marginal lengthscale(priors.lengthscale, priors.min_lengthscale, priors.max_lengthscale);
    const Marginal signal(priors.signal, 1e-3, 1e3);
    const Marginal noise(priors.noise, priors.min_noise, 10.0);
    for (Index n : {0, 5}) {
      base::RandomStream random(7, "invariance", static_cast<uint64_t>(n));
      std::vector<std::vector<double>> seen(5);
      for (int c = 0; c < kChains; ++c) {
        const MatrixXd x = RandomPoints(random, n, 2);
        Hyperparameters theta;
        theta.lengthscales = (VectorXd(2) << lengthscale.Draw(random), lengthscale.Draw(random)).finished();
        theta.signal_variance = signal.Draw(random);
        theta.noise_variance = noise.Draw(random) + priors.diagonal;
        theta.mean = random.Normal();
        const VectorXd y = n > 0 ? DrawOutputs(random, Shape(2), theta, x) : VectorXd(0);
        Likelihood likelihood(Shape(2), x, y);
        SamplingOptions options = Options(kind, 0, 3);
        options.inference.doubt_noise = doubt;
        const VectorXd start = ChainDensity(&likelihood, options.inference).Pack(theta);
        const SamplingResult result =
            SampleHyperparameters(&likelihood, options, start, std::nullopt,
                                  base::RandomStream(7, "chain", static_cast<uint64_t>(c), static_cast<uint32_t>(n)),
                                  base::StopToken())
                .value();
        ASSERT_FALSE(result.burned);
        ASSERT_EQ(result.states.size(), 3u);
        const Hyperparameters& end = result.states.back();
        seen[0].push_back(lengthscale.Cdf(end.lengthscales(0)));
        seen[1].push_back(lengthscale.Cdf(end.lengthscales(1)));
        seen[2].push_back(signal.Cdf(end.signal_variance));
        seen[3].push_back(noise.Cdf(end.noise_variance - priors.diagonal));
        seen[4].push_back(0.5 * std::erfc(-end.mean / std::sqrt(2.0)));
      }
      for (size_t j = 0; j < seen.size(); ++j) {
        EXPECT_GT(KolmogorovP(seen[j]), 1e-4)
            << "prior " << static_cast<int>(kind) << doubt << " n " << n << " parameter " << j;
      }
    }
  }
}

TEST(SampleHyperparameters, OneLongChainWithoutDataVisitsThePrior) {
  const Priors priors = PriorsOf(PriorKind::kDimensionScaled, 2);
  Likelihood likelihood(Shape(2), MatrixXd(0, 2), VectorXd(0));
  const SamplingResult result =
      SampleHyperparameters(&likelihood, Options(PriorKind::kDimensionScaled, 100, 15000), std::nullopt, std::nullopt,
                            base::RandomStream(3, "long"), base::StopToken())
          .value();
  const Marginal lengthscale(priors.lengthscale, priors.min_lengthscale, priors.max_lengthscale);
  std::vector<double> seen;
  for (size_t k = 0; k < result.states.size(); k += 10) {
    seen.push_back(lengthscale.Cdf(result.states[k].lengthscales(1)));
  }
  EXPECT_GT(KolmogorovP(seen), 1e-4);
}

TEST(SampleHyperparameters, RecoversLengthscales) {
  Hyperparameters truth;
  truth.lengthscales = (VectorXd(2) << 0.2, 2.0).finished();
  truth.noise_variance = 1e-3;
  for (PriorKind kind : kKinds) {
    int ordered = 0;
    std::vector<double> ratios[2];
    for (uint64_t seed = 0; seed < 10; ++seed) {
      base::RandomStream random(seed, "recovery");
      const MatrixXd x = RandomPoints(random, 60, 2);
      Likelihood likelihood(Shape(2), x, DrawOutputs(random, Shape(2), truth, x));
      const SamplingResult result = SampleHyperparameters(&likelihood, Options(kind, 20, 20), std::nullopt,
                                                          std::nullopt, random, base::StopToken())
                                        .value();
      VectorXd mean = VectorXd::Zero(2);
      for (const Hyperparameters& theta : result.states) mean += theta.lengthscales.array().log().matrix() / 20.0;
      ordered += mean(0) < mean(1);
      for (Index j = 0; j < 2; ++j) ratios[j].push_back(mean(j) - std::log(truth.lengthscales(j)));
    }
    EXPECT_GE(ordered, 9);
    for (std::vector<double>& r : ratios) {
      std::sort(r.begin(), r.end());
      EXPECT_NEAR(0.5 * (r[4] + r[5]), 0.0, 0.7) << static_cast<int>(kind);
    }
  }
}

TEST(SampleHyperparameters, ChainsGoOnWhereTheyWereAndStartAnewWhereTheyCannot) {
  base::RandomStream random(5, "data");
  const MatrixXd x = RandomPoints(random, 12, 2);
  const VectorXd y = RandomNormals(random, 12);
  for (PriorKind kind : kKinds) {
    Likelihood likelihood(Shape(2), x, y);
    const SamplingOptions options = Options(kind, 30, 4);
    const base::RandomStream a(1, "a"), b(1, "b");
    const SamplingResult first =
        SampleHyperparameters(&likelihood, options, std::nullopt, std::nullopt, a, base::StopToken()).value();
    EXPECT_TRUE(first.burned);
    ASSERT_EQ(first.states.size(), 4u);
    const ChainDensity density(&likelihood, options.inference);
    EXPECT_EQ(density.Unpack(first.chain).lengthscales, first.states.back().lengthscales);
    const SamplingResult second =
        SampleHyperparameters(&likelihood, options, first.chain, std::nullopt, b, base::StopToken()).value();
    EXPECT_FALSE(second.burned);
    EXPECT_LT(second.counts.evaluations, first.counts.evaluations / 4);
    EXPECT_NE(second.chain, first.chain);
    // A pure function: the same again, and nothing but the carried state is remembered.
    Likelihood same(Shape(2), x, y);
    EXPECT_EQ(
        SampleHyperparameters(&same, options, first.chain, first.states.front(), b, base::StopToken()).value().chain,
        second.chain);
    // States without density under the data of now, or no states at all.
    for (const VectorXd& bad : {VectorXd::Constant(5, 1e3).eval(), VectorXd::Constant(5, -1e3).eval(),
                                VectorXd::Constant(5, NAN).eval(), VectorXd::Constant(4, 1.0).eval(), VectorXd()}) {
      const SamplingResult reset =
          SampleHyperparameters(&likelihood, options, bad, std::nullopt, a, base::StopToken()).value();
      EXPECT_TRUE(reset.burned);
      EXPECT_EQ(reset.chain, first.chain);
    }
  }
}

TEST(SampleHyperparameters, NoValidStartGivesNoStates) {
  // Equal points without any noise: no covariance can be factored.
  Likelihood likelihood(Shape(2), MatrixXd::Constant(8, 2, 0.5), VectorXd::LinSpaced(8, -1, 1));
  SamplingOptions options = Options(PriorKind::kDimensionScaled, 5, 2);
  options.inference.fit_noise = false;
  options.inference.fixed_noise = 0.0;
  const SamplingResult result =
      SampleHyperparameters(&likelihood, options, std::nullopt, Hyperparameters{VectorXd::Ones(2)}, {1, "none"},
                            base::StopToken())
          .value();
  EXPECT_TRUE(result.states.empty());
  EXPECT_EQ(result.counts.evaluations, 2);
}

TEST(SampleHyperparameters, DegenerateDataStayInsideTheBounds) {
  for (PriorKind kind : kKinds) {
    for (Index n : {1, 2, 30}) {
      Likelihood likelihood(Shape(2), MatrixXd::Constant(n, 2, 0.5), VectorXd::Zero(n));
      SamplingOptions options = Options(kind, 10, 5);
      options.inference.doubt_noise = true;
      options.inference.min_noise = 1e-8;
      const SamplingResult result = SampleHyperparameters(&likelihood, options, std::nullopt, std::nullopt,
                                                          base::RandomStream(2, "flat"), base::StopToken())
                                        .value();
      ASSERT_EQ(result.states.size(), 5u);
      for (const Hyperparameters& theta : result.states) {
        EXPECT_GT(theta.lengthscales.minCoeff(), 0.0);
        EXPECT_LE(theta.lengthscales.maxCoeff(), 100.0 * 1.000001);
        EXPECT_GE(theta.noise_variance, 0.999999e-8);
        EXPECT_TRUE(std::isfinite(theta.mean));
      }
    }
  }
}

TEST(SampleHyperparameters, TheNoiseOfSlopesIsSampledToo) {
  base::RandomStream random(9, "slopes");
  const MatrixXd x = RandomPoints(random, 6, 2);
  Slopes slopes;
  for (Index i = 0; i < 3; ++i) slopes.AddGradient(i, RandomNormals(random, 2));
  for (PriorKind kind : kKinds) {
    Likelihood likelihood(Shape(2), x, RandomNormals(random, 6), slopes);
    const SamplingResult result = SampleHyperparameters(&likelihood, Options(kind, 5, 3), std::nullopt, std::nullopt,
                                                        base::RandomStream(2, "slopes chain"), base::StopToken())
                                      .value();
    ASSERT_EQ(result.states.size(), 3u);
    EXPECT_EQ(result.chain.size(), 6);
    EXPECT_GT(result.states[0].slope_noise_variance, 0.0);
    EXPECT_NE(result.states[0].slope_noise_variance, result.states[2].slope_noise_variance);
  }
}

TEST(SampleHyperparameters, KernelsWithAShapeParameterSampleItToo) {
  base::RandomStream random(9, "shape parameter");
  const kernels::KernelShape shape = kernels::ArdShape(Family::kSquaredExponential, 2, kernels::Structure::kPairwise);
  const MatrixXd x = RandomPoints(random, 10, 2);
  for (PriorKind kind : kKinds) {
    Likelihood likelihood(shape, x, RandomNormals(random, 10));
    const SamplingResult result = SampleHyperparameters(&likelihood, Options(kind, 5, 3), std::nullopt, std::nullopt,
                                                        base::RandomStream(2, "chain"), base::StopToken())
                                      .value();
    ASSERT_EQ(result.states.size(), 3u);
    EXPECT_EQ(result.chain.size(), 6);
    EXPECT_NE(result.states[0].shape_parameter, result.states[2].shape_parameter);
  }
}

}  // namespace
}  // namespace luthier::gp
