#include "lib/spectral/recovery.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/spectral/minimizers.h"
#include "tests/lib/spectral/testing.h"

namespace luthier::spectral {
namespace {

using Eigen::VectorXd;

// recovery_rates_test.cc has the full numbers of seeds.
TEST(Recovery, FindsASparsePolynomialExactly) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/sparse");
    const Polynomial g = RandomPolynomial(random, 60, 5, 3);
    const BitMatrix x = RandomBits(random, 300, 60);
    const VectorXd y = NoisyValues(random, g, x, 0.3);
    const Recovery recovery = Recover(x, y, AllBits(60), {}, base::StopToken()).value();
    EXPECT_EQ(recovery.features, 36050);
    EXPECT_TRUE(recovery.believed);
    EXPECT_GT(recovery.cv_r2, 0.6);
    EXPECT_EQ(Support(recovery.polynomial), Support(g));
    for (const Term& term : recovery.polynomial.terms) {
      for (const Term& truth : g.terms) {
        if (truth.bits != term.bits) continue;
        EXPECT_NEAR(term.weight, truth.weight, 0.3);
      }
    }
    // Parseval: a sum of squared weights is no more than the variance, but for its sampling error.
    double squares = 0.0;
    for (const Term& term : recovery.polynomial.terms) squares += term.weight * term.weight;
    const double error = recovery.variance * std::sqrt(2.0 / 300.0);
    EXPECT_LE(squares, recovery.variance + 4.0 * error);
  }
}

// 10 (x2 x8 + x15 + x46 + x38 + x3 x6): the worked example of the published reference implementation.
TEST(Recovery, SolvesTheReferenceExample) {
  const Polynomial g{0.0, {{{2, 8}, 10.0}, {{15}, 10.0}, {{46}, 10.0}, {{38}, 10.0}, {{3, 6}, 10.0}}};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    base::RandomStream random(seed, "test/reference");
    const BitMatrix x = RandomBits(random, 300, 60);
    const Recovery recovery = Recover(x, EvaluateRows(g, x), AllBits(60), {}, base::StopToken()).value();
    EXPECT_EQ(Support(recovery.polynomial), Support(g));
    const std::vector<int> variables = Variables(recovery.polynomial);
    const std::vector<Assignment> least = Minimizers(recovery.polynomial, 4, base::StopToken()).value();
    for (const Assignment& best : least) {
      Bits point = Bits::Ones(60);
      for (size_t k = 0; k < variables.size(); ++k) {
        if ((best.code >> k) & 1) point[variables[k]] = -1.0f;
      }
      EXPECT_EQ(Evaluate(g, point), -50.0);
    }
  }
}

TEST(Recovery, TheGateStaysClosedOnNoise) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    base::RandomStream random(seed, "test/noise");
    const BitMatrix x = RandomBits(random, 300, 60);
    VectorXd y(300);
    for (double& v : y) v = random.Normal();
    const Recovery recovery = Recover(x, y, AllBits(60), {}, base::StopToken()).value();
    EXPECT_FALSE(recovery.believed) << "seed " << seed << " cv " << recovery.cv_r2;
    EXPECT_FALSE(recovery.polynomial.terms.empty());
  }
}

// Many weak effects of single bits, each below the noise of 34,220 triples.
TEST(Recovery, LowerDegreesSeeWhatHigherOnesHide) {
  base::RandomStream random(1, "test/weak");
  const BitMatrix x = RandomBits(random, 300, 60);
  Polynomial g;
  for (int bit = 0; bit < 12; ++bit) g.terms.push_back({{bit}, bit % 2 ? 1.0 : -1.0});
  const Recovery recovery = Recover(x, NoisyValues(random, g, x, 1.0), AllBits(60), {}, base::StopToken()).value();
  EXPECT_TRUE(recovery.believed) << recovery.cv_r2;
  const std::vector<int> variables = Variables(recovery.polynomial);
  EXPECT_LT(variables.back(), 12);
}

TEST(Recovery, ScaleAndShiftOfTheLossOnlyScaleAndShiftTheAnswer) {
  base::RandomStream random(2, "test/scale");
  const Polynomial g = RandomPolynomial(random, 40, 5, 3);
  const BitMatrix x = RandomBits(random, 200, 40);
  const VectorXd y = NoisyValues(random, g, x, 0.3);
  const Recovery one = Recover(x, y, AllBits(40), {}, base::StopToken()).value();
  const Recovery other = Recover(x, (1e6 * y.array() + 1e7).matrix(), AllBits(40), {}, base::StopToken()).value();
  ASSERT_EQ(Support(one.polynomial), Support(other.polynomial));
  EXPECT_NEAR(one.cv_r2, other.cv_r2, 1e-6);
  EXPECT_NEAR(1e6 * one.polynomial.terms[0].weight, other.polynomial.terms[0].weight, 1.0);
}

TEST(Recovery, SurvivesAnyLosses) {
  base::RandomStream random(3, "test/any");
  const BitMatrix x = RandomBits(random, 60, 20);
  const auto recover = [&](const VectorXd& y) {
    VectorXd losses = y;
    Winsorize(&losses);
    return Recover(x, losses, AllBits(20), {}, base::StopToken()).value();
  };
  EXPECT_TRUE(recover(VectorXd::Constant(60, 0.25)).polynomial.terms.empty());
  EXPECT_TRUE(recover(VectorXd::Zero(60)).polynomial.terms.empty());
  EXPECT_EQ(recover(VectorXd::Constant(60, 0.25)).polynomial.intercept, 0.25);
  for (const double size : {1e-310, 1e-100, 1e150, 1e300, std::numeric_limits<double>::max()}) {
    VectorXd y(60);
    for (int i = 0; i < 60; ++i) y[i] = i % 3 == 0 ? -size : random.Normal() * 0.1 * size;
    const Recovery recovery = recover(y);
    EXPECT_TRUE(std::isfinite(recovery.r2) && std::isfinite(recovery.cv_r2)) << size;
    for (const Term& term : recovery.polynomial.terms) EXPECT_TRUE(std::isfinite(term.weight)) << size;
  }
  EXPECT_FALSE(
      Recover(x.topRows(3), VectorXd::LinSpaced(3, 0, 1), AllBits(20), {}, base::StopToken()).value().believed);
  EXPECT_FALSE(Recover(x, VectorXd::LinSpaced(60, 0, 1), {}, {}, base::StopToken()).value().believed);
}

TEST(Recovery, WinsorizeBoundsTheBadSideOnly) {
  VectorXd y(7);
  y << 1, 2, 3, 4, 5, 1e9, -1e9;
  Winsorize(&y);
  EXPECT_NEAR(y[5], 3.0 + 5.0 * 1.4826 * 2.0, 1e-9);
  EXPECT_EQ(y[6], -1e9);
  VectorXd equal(5);
  equal << 1, 1, 1, 1, 50;
  Winsorize(&equal);
  EXPECT_EQ(equal[4], 50.0);
}

TEST(Recovery, TheBootstrapKnowsSignalFromNoise) {
  base::RandomStream random(5, "test/bootstrap");
  Polynomial g{0.0, {{{1}, 1.0}, {{2, 3}, 0.8}}};
  const BitMatrix x = RandomBits(random, 150, 25);
  const VectorXd y = NoisyValues(random, g, x, 0.5);
  const Recovery recovery = Recover(x, y, AllBits(25), {}, base::StopToken()).value();
  const std::vector<double> share =
      BootstrapFrequencies(x, y, AllBits(25), {}, recovery.polynomial.terms, {20, 1}, base::StopToken()).value();
  EXPECT_EQ(share,
            BootstrapFrequencies(x, y, AllBits(25), {}, recovery.polynomial.terms, {20, 1}, base::StopToken()).value());
  for (size_t k = 0; k < share.size(); ++k) {
    if (Support(g).count(recovery.polynomial.terms[k].bits)) {
      EXPECT_EQ(share[k], 1.0);
    } else {
      EXPECT_LT(share[k], 0.9);
    }
  }
}

}  // namespace
}  // namespace luthier::spectral
