#include "lib/search/bo/acquisition/truncated.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/kernels/stationary.h"
#include "lib/math/finite_difference.h"
#include "lib/math/lbfgs.h"
#include "lib/math/special_functions.h"

namespace luthier::search {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr AcquisitionKind kEi = AcquisitionKind::kExpectedImprovement;
constexpr AcquisitionKind kLogEi = AcquisitionKind::kLogExpectedImprovement;
constexpr AcquisitionKind kPi = AcquisitionKind::kProbabilityOfImprovement;
constexpr AcquisitionKind kLogPi = AcquisitionKind::kLogProbabilityOfImprovement;
constexpr AcquisitionKind kUcb = AcquisitionKind::kUpperConfidenceBound;

// The integrals over [low, high] of 1 and of f - best, weighted by N(f; mean, sd^2), relative to that density's largest
// value there, whose logarithm is `log_peak`: Gauss-Legendre's 5-point rule on many panels, in long double, over what
// is within e^-70 of the peak.
struct Moments {
  long double mass = 0.0L, gain = 0.0L, log_peak = 0.0L;
  double LogMass() const { return static_cast<double>(log_peak + std::log(mass)); }
  double LogGain() const { return static_cast<double>(log_peak + std::log(gain)); }
  double Mass() const { return static_cast<double>(std::exp(log_peak) * mass); }
  double Gain() const { return static_cast<double>(std::exp(log_peak) * gain); }
};
Moments Quadrature(double mean, double sd, double low, double high, double best) {
  Moments m;
  if (!(high > low)) return m;
  const long double peak = std::clamp(mean, low, high), z_peak = (peak - mean) / static_cast<long double>(sd);
  // The density falls by exp(-(z t + t^2/2)) within t deviations of the peak, away from the mean.
  const auto reach = [](long double z) { return (-z + std::sqrt(z * z + 140.0L)); };
  const long double begin = std::max<long double>(low, peak - sd * reach(std::max(-z_peak, 0.0L)));
  const long double end = std::min<long double>(high, peak + sd * reach(std::max(z_peak, 0.0L)));
  const long double nodes[] = {0.0L, 0.538469310105683091036L, 0.906179845938663992798L};
  const long double weights[] = {0.568888888888888888889L, 0.478628670499366468041L, 0.236926885056189087514L};
  constexpr int kPanels = 60;
  const long double half = (end - begin) / (2 * kPanels);
  for (int p = 0; p < kPanels; ++p) {
    for (int k = 0; k < 3; ++k) {
      for (int side = -1; side <= (k == 0 ? -1 : 1); side += 2) {
        const long double f = begin + half * (2 * p + 1 + side * nodes[k]);
        const long double z = (f - mean) / sd;
        const long double weighted = weights[k] * half * std::exp(-0.5L * (z - z_peak) * (z + z_peak));
        m.mass += weighted;
        m.gain += weighted * (f - best);
      }
    }
  }
  m.log_peak = -0.5L * z_peak * z_peak - std::log(static_cast<long double>(sd) * 2.506628274631000502416L);
  return m;
}

double Truncated(AcquisitionKind kind, bool normalised, double mean, double sd, double best, double lower,
                 double upper) {
  return EvaluateTruncated({.kind = kind}, normalised, mean, sd, best, lower, upper).value;
}

struct Case {
  double mean, sd, best, lower, upper;
};

std::vector<Case> RandomCases(int count, uint64_t seed) {
  base::RandomStream stream(seed, "truncated cases");
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Case c{2.0 * stream.Normal(), 0.05 + 2.0 * stream.Uniform(), stream.Normal(), 0.0, 0.0};
    const double middle = stream.Normal();
    c.lower = i % 5 == 0 ? -kNoBound : middle - 3.0 * stream.Uniform();
    c.upper = i % 7 == 0 ? kNoBound : middle + 3.0 * stream.Uniform();
    cases.push_back(c);
  }
  return cases;
}

// Narrow and wide bands on either side of the value to beat, in deviations of any size, near the mean and far out.
std::vector<Case> HardCases(int count, uint64_t seed) {
  base::RandomStream stream(seed, "hard truncated cases");
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    const double sd = std::pow(10.0, -6.0 + 9.0 * stream.Uniform());
    Case c{0.0, sd, 12.0 * sd * stream.Normal(), 0.0, 0.0};
    c.lower = c.best + sd * std::pow(10.0, -8.0 + 9.0 * stream.Uniform()) * (i % 3 == 0 ? 1.0 : -1.0);
    c.upper = std::max(c.best, c.lower) + sd * std::pow(10.0, -8.0 + 10.0 * stream.Uniform());
    cases.push_back(c);
  }
  return cases;
}

// Relative: a factor of 1e-10, however small the value.
TEST(TruncatedImprovement, EqualsItsIntegral) {
  constexpr double kTolerance = 1e-10;
  int nothing = 0, compared = 0;
  std::vector<Case> cases = RandomCases(10'000, 11);
  for (const Case& c : HardCases(2'000, 28)) cases.push_back(c);
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.mean << " " << c.sd << " " << c.best << " " << c.lower << " " << c.upper);
    const auto value = [&](AcquisitionKind kind, bool normalised) {
      return Truncated(kind, normalised, c.mean, c.sd, c.best, c.lower, c.upper);
    };
    const double a = std::max(c.best, c.lower);
    const Moments improving = Quadrature(c.mean, c.sd, a, c.upper, c.best);
    if (improving.mass == 0.0L) {
      ASSERT_EQ(value(kEi, false), 0.0);
      ASSERT_EQ(value(kPi, false), 0.0);
      ++nothing;
      continue;
    }
    ++compared;
    // A mass is computed from its ends in deviations, unless the band is narrow: what rounding those does to its width.
    const auto rounding = [&](double low, double high) {
      const double ends = std::max(std::abs(c.mean - low), std::abs(c.mean - high)) / (high - low);
      return ends < 1.1e6 ? 4e-16 * ends : 0.0;
    };
    const double tpi = kTolerance + rounding(a, c.upper), tei = a > c.best ? tpi : kTolerance;
    // Of a logarithm of -1000 rounding alone leaves 1e-13; values below 1e-290 lose digits as all such numbers do.
    ASSERT_NEAR(value(kLogEi, false), improving.LogGain(), tei);
    ASSERT_NEAR(value(kLogPi, false), improving.LogMass(), tpi);
    if (improving.Gain() > 1e-290 && improving.Mass() > 1e-290) {
      ASSERT_NEAR(value(kEi, false) / improving.Gain(), 1.0, tei);
      ASSERT_NEAR(value(kPi, false) / improving.Mass(), 1.0, tpi);
    }
    if (c.lower >= c.upper) continue;
    const Moments band = Quadrature(c.mean, c.sd, c.lower, c.upper, c.best);
    const double tnorm = kTolerance + rounding(c.lower, c.upper);
    const double gain = improving.LogGain() - band.LogMass(), mass = improving.LogMass() - band.LogMass();
    ASSERT_NEAR(value(kLogEi, true), gain, tnorm + tei);
    ASSERT_NEAR(value(kLogPi, true), mass, tnorm + tpi);
    if (std::min(gain, mass) < -660.0) continue;
    ASSERT_NEAR(value(kEi, true) / std::exp(gain), 1.0, tnorm + tei);
    ASSERT_NEAR(value(kPi, true) / std::exp(mass), 1.0, tnorm + tpi);
  }
  EXPECT_GT(compared, 4000);
  EXPECT_GT(nothing, 100);
}

// A band of `width` above `low`, in long double and in distances from `low`, so that nothing cancels: the integrals of
// weight (f - mean)^k N(f; mean, sd^2), k = 0, 1, 2, relative to N(low), where the weight is 1 or f - best.
struct NarrowMoments {
  long double by_power[2][3] = {};  // Of the weights 1 and f - best.
};
NarrowMoments IntegrateNarrow(long double mean, long double sd, long double best, long double low, long double width) {
  const long double nodes[] = {-0.906179845938663992798L, -0.538469310105683091036L, 0.0L, 0.538469310105683091036L,
                               0.906179845938663992798L};
  const long double weights[] = {0.236926885056189087514L, 0.478628670499366468041L, 0.568888888888888888889L,
                                 0.478628670499366468041L, 0.236926885056189087514L};
  NarrowMoments m;
  for (int k = 0; k < 5; ++k) {  // The integrand is a polynomial but for e^-60 or less.
    const long double t = 0.5L * width * (1.0L + nodes[k]);
    const long double z = (low - mean) / sd, s = t / sd;
    const long double density = 0.5L * width * weights[k] * std::exp(-0.5L * s * (2.0L * z + s));
    const long double above = (low - mean) + t;
    for (int power = 0; power < 3; ++power) {
      const long double term = density * (power == 0 ? 1.0L : power == 1 ? above : above * above);
      m.by_power[0][power] += term;
      m.by_power[1][power] += term * ((low - best) + t);
    }
  }
  return m;
}

// Bands from 1e-14 to 1e-5 deviations wide, up to twelve from the mean, above the value to beat or beginning there.
TEST(TruncatedImprovement, NarrowBandsKeepTheirDigits) {
  constexpr double kTolerance = 1e-9;
  base::RandomStream stream(29, "narrow bands");
  for (int i = 0; i < 3000; ++i) {
    const double sd = std::pow(10.0, -3.0 + 4.0 * stream.Uniform());
    const double low = sd * stream.Normal(), mean = low + sd * 12.0 * (2.0 * stream.Uniform() - 1.0);
    const double high = low + sd * std::pow(10.0, -14.0 + 9.0 * stream.Uniform());
    if (!(high > low)) continue;
    const bool at_best = i % 3 == 0;
    const double best = at_best ? low : low - sd * std::pow(10.0, -12.0 + 12.0 * stream.Uniform());
    const double lower = at_best ? low - 3.0 * sd : low;  // The band's own end, or the value to beat.
    SCOPED_TRACE(testing::Message() << mean << " " << sd << " " << best << " " << lower << " " << high - low);
    const long double width = static_cast<long double>(high) - low;
    const NarrowMoments m = IntegrateNarrow(mean, sd, best, low, width);
    const long double z = (static_cast<long double>(low) - mean) / sd;
    const long double log_density = -0.5L * z * z - std::log(static_cast<long double>(sd) * 2.506628274631000502416L);
    const long double end_density = std::exp(-0.5L * (width / sd) * (2.0L * z + width / sd));
    for (const bool expectation : {false, true}) {
      const long double* by_power = m.by_power[expectation ? 1 : 0];
      const long double log = log_density + std::log(by_power[0]);
      const TruncatedTerm t =
          EvaluateTruncated({.kind = expectation ? kLogEi : kLogPi}, false, mean, sd, best, lower, high);
      ASSERT_NEAR(t.value, static_cast<double>(log), kTolerance);
      ASSERT_NEAR(
          Truncated(expectation ? kEi : kPi, false, mean, sd, best, lower, high) / static_cast<double>(std::exp(log)),
          1.0, kTolerance);
      const long double variance = static_cast<long double>(sd) * sd;
      const double by_mean = static_cast<double>(by_power[1] / by_power[0] / variance);
      const double by_deviation = static_cast<double>((by_power[2] / by_power[0] / variance - 1.0L) / sd);
      const double distance = 1.0 + std::abs(static_cast<double>(z));
      ASSERT_NEAR(t.by_mean * sd, by_mean * sd, 1e-8 * distance);
      ASSERT_NEAR(t.by_deviation * sd, by_deviation * sd, 1e-8 * distance * distance);
      const double by_upper =
          static_cast<double>((expectation ? static_cast<long double>(high) - best : 1.0L) * end_density / by_power[0]);
      ASSERT_NEAR(t.by_upper / by_upper, 1.0, 1e-8);
      if (at_best) {
        ASSERT_EQ(t.by_lower, 0.0);
        continue;
      }
      const double by_lower =
          static_cast<double>(-(expectation ? static_cast<long double>(low) - best : 1.0L) / by_power[0]);
      ASSERT_NEAR(t.by_lower * (high - low), by_lower * (high - low), 1e-8);
      // Of the band's own mass: the improving part is all of it.
      ASSERT_NEAR(Truncated(expectation ? kLogEi : kLogPi, true, mean, sd, best, lower, high),
                  expectation ? static_cast<double>(std::log(by_power[0] / m.by_power[0][0])) : 0.0, kTolerance);
    }
  }
}

TEST(TruncatedImprovement, LogarithmsKeepRelativeAccuracyInTheTails) {
  // ln int_0^w f N(f; mean, 1) df for a mean far below: scaled by the density at 0, the integrand t exp(mean t - t^2/2)
  // is harmless.
  for (double mean : {-60.0, -35.0, -10.0, -3.0}) {
    for (double width : {1e-6, 1e-3, 0.02, 0.5, 3.0, 1000.0}) {
      const long double end = std::min(width, 60.0 / -mean);
      const int panels = 4000;
      const long double h = end / panels;
      long double moment = 0.0L, mass = 0.0L;
      for (int k = 0; k <= panels; ++k) {
        const long double t = k * h;
        const long double weight = (k == 0 || k == panels ? 1.0L : k % 2 == 1 ? 4.0L : 2.0L) * h / 3.0L;
        moment += weight * t * std::exp(mean * t - 0.5L * t * t);
        mass += weight * std::exp(mean * t - 0.5L * t * t);
      }
      const double density = math::LogNormalDensity(mean);
      const double expected = density + static_cast<double>(std::log(moment));
      EXPECT_NEAR(Truncated(kLogEi, false, mean, 1.0, 0.0, -kNoBound, width) / expected, 1.0, 1e-9);
      EXPECT_NEAR(
          Truncated(kLogPi, false, mean, 1.0, 0.0, -kNoBound, width) / (density + static_cast<double>(std::log(mass))),
          1.0, 1e-9);
      // Units: f -> 3 f + 1.
      EXPECT_NEAR(Truncated(kLogEi, false, 3.0 * mean + 1.0, 3.0, 1.0, -kNoBound, 3.0 * width + 1.0),
                  expected + std::log(3.0), 1e-9 * std::abs(expected));
    }
  }
}

TEST(TruncatedImprovement, TheCorrectedSignReducesToTheExpectedImprovement) {
  // mu = 2, sigma = 1, y* = 0: the printed minus sign gives -1.90.
  EXPECT_NEAR(Truncated(kEi, false, 2.0, 1.0, 0.0, -kNoBound, 1e6), 2.0084907, 1e-6);
  for (double mean = -4.0; mean < 4.0; mean += 0.5) {
    EXPECT_NEAR(Truncated(kEi, false, mean, 0.8, 0.3, -50.0, 50.0), ExpectedImprovement(mean, 0.8, 0.3).value, 1e-12);
    EXPECT_NEAR(Truncated(kPi, false, mean, 0.8, 0.3, -50.0, 50.0), ProbabilityOfImprovement(mean, 0.8, 0.3).value,
                1e-12);
    EXPECT_NEAR(Truncated(kEi, true, mean, 0.8, 0.3, -50.0, 50.0), ExpectedImprovement(mean, 0.8, 0.3).value, 1e-12);
  }
}

TEST(TruncatedImprovement, WithoutABandNothingChangesBitForBit) {
  for (const Case& c : RandomCases(200, 12)) {
    for (const AcquisitionKind kind : {kEi, kLogEi, kPi, kLogPi, kUcb}) {
      const AcquisitionSettings settings{.kind = kind, .margin = 0.01, .root_beta = 3.0};
      for (const bool normalised : {false, true}) {
        const TruncatedTerm t = EvaluateTruncated(settings, normalised, c.mean, c.sd, c.best, -kNoBound, kNoBound);
        const AcquisitionTerm plain = EvaluateTerm(settings, c.mean, c.sd, c.best);
        EXPECT_EQ(t.value, plain.value);
        EXPECT_EQ(t.by_mean, plain.by_mean);
        EXPECT_EQ(t.by_deviation, plain.by_deviation);
        EXPECT_EQ(t.by_upper, 0.0);
      }
    }
  }
}

TEST(TruncatedImprovement, ABandThatCutsNothingOffChangesNothingBitForBit) {
  for (const AcquisitionKind kind : {kEi, kLogEi, kPi, kLogPi}) {
    AcquisitionSettings settings;
    settings.kind = kind;
    for (const double z : {-30.0, -5.0, -0.5, 0.0, 2.0}) {  // Deviations of the mean above the value to beat.
      const AcquisitionTerm plain = EvaluateTerm(settings, z, 1.0, 0.0);
      // Where the term may be taken for the plain one, and just below, where it is integrated.
      const double from = std::max(0.0, -z), edge = z + std::sqrt(100.0 + from * from);
      const TruncatedTerm above = EvaluateTruncated(settings, false, z, 1.0, 0.0, -1.0, edge * (1.0 + 1e-9));
      const TruncatedTerm below = EvaluateTruncated(settings, false, z, 1.0, 0.0, -1.0, edge * (1.0 - 1e-9));
      EXPECT_EQ(above.value, plain.value);
      EXPECT_EQ(above.by_mean, plain.by_mean);
      EXPECT_EQ(above.by_deviation, plain.by_deviation);
      EXPECT_EQ(above.by_upper, 0.0);
      EXPECT_NEAR(below.value, plain.value, 1e-11 * std::abs(plain.value)) << z;  // exp of a logarithm of 460.
      EXPECT_NEAR(below.by_mean, plain.by_mean, 1e-9 * std::abs(plain.by_mean)) << z;
    }
  }
}

TEST(TruncatedImprovement, BoundsAndMonotonicity) {
  for (const Case& c : RandomCases(1000, 13)) {
    const double tei = Truncated(kEi, false, c.mean, c.sd, c.best, c.lower, c.upper);
    const double tpi = Truncated(kPi, false, c.mean, c.sd, c.best, c.lower, c.upper);
    const double a = std::max(c.best, c.lower);
    EXPECT_GE(tei, 0.0);
    EXPECT_LE(tei, ExpectedImprovement(c.mean, c.sd, c.best).value * (1.0 + 1e-11));
    if (std::isfinite(c.upper)) {
      EXPECT_LE(tei, std::max(0.0, c.upper - c.best) * tpi * (1.0 + 1e-10));
    }
    EXPECT_GE(tei * (1.0 + 1e-10) + 1e-15, (a - c.best) * tpi);
    EXPECT_LE(tpi, ProbabilityOfImprovement(c.mean, c.sd, c.best).value * (1.0 + 1e-11));
    EXPECT_LE(Truncated(kPi, true, c.mean, c.sd, c.best, c.lower, c.upper), 1.0 + 1e-12);
    if (std::isfinite(c.upper)) {
      EXPECT_GE(Truncated(kEi, false, c.mean, c.sd, c.best, c.lower, c.upper + 0.1) * (1.0 + 1e-12), tei);
    }
  }
}

TEST(TruncatedImprovement, ZeroImprovementIsOrderedByTheBound) {
  EXPECT_EQ(Truncated(kEi, false, 1.0, 1.0, 0.5, -1.0, 0.4), 0.0);
  EXPECT_EQ(Truncated(kPi, false, 1.0, 1.0, 0.5, -1.0, 0.5), 0.0);
  const double near = Truncated(kLogEi, false, 1.0, 1.0, 0.5, -1.0, 0.4);
  const double far = Truncated(kLogEi, false, 9.0, 1.0, 0.5, -1.0, 0.3);
  EXPECT_TRUE(std::isfinite(far));
  EXPECT_LT(far, near);
  EXPECT_LT(near, Truncated(kLogEi, false, -1e4, 1e-6, 0.5, -1.0, 0.5000001));
  EXPECT_GT(EvaluateTruncated({.kind = kLogEi}, false, 1.0, 1.0, 0.5, -1.0, 0.4).by_upper, 0.0);
  EXPECT_TRUE(std::isnan(Truncated(kLogEi, false, NAN, 1.0, 0.5, -1.0, 2.0)));
  EXPECT_TRUE(std::isnan(Truncated(kEi, false, 0.0, 1.0, 0.5, -1.0, NAN)));
}

TEST(TruncatedImprovement, WhenModelAndBandDisagreeTheMassSitsAtTheNearestEdge) {
  // The band [0.2, 0.9] is 40 deviations above the mean: the normalised mass is at 0.2; then at 0.9 from above.
  EXPECT_NEAR(Truncated(kEi, true, -40.0, 1.0, -1.0, 0.2, 0.9), 1.2, 0.03);
  EXPECT_NEAR(Truncated(kEi, true, -4000.0, 1.0, -1.0, 0.2, 0.9), 1.2, 3e-4);
  EXPECT_NEAR(Truncated(kEi, true, 4000.0, 1.0, -1.0, 0.2, 0.9), 1.9, 3e-4);
  EXPECT_NEAR(Truncated(kPi, true, -4000.0, 1.0, -1.0, 0.2, 0.9), 1.0, 1e-9);
  EXPECT_NEAR(Truncated(kPi, true, -4000.0, 1.0, 0.5, 0.2, 0.9), 0.0, 1e-9);
  // No width at all, as at a data point.
  EXPECT_EQ(Truncated(kEi, true, 3.0, 1.0, 0.5, 0.7, 0.7), 0.7 - 0.5);
  EXPECT_EQ(Truncated(kPi, true, 3.0, 1.0, 0.5, 0.7, 0.7), 1.0);
  EXPECT_EQ(Truncated(kEi, true, 3.0, 1.0, 0.5, 0.4, 0.4), 0.0);
  EXPECT_NEAR(Truncated(kLogEi, true, 3.0, 1.0, 0.5, 0.7, 0.7), std::log(0.2), 1e-14);
}

TEST(TruncatedTerms, MatchDifferences) {
  for (const AcquisitionKind kind : {kEi, kLogEi, kPi, kLogPi, kUcb}) {
    for (const bool normalised : {false, true}) {
      for (const Case& c : RandomCases(60, 14)) {
        const AcquisitionSettings settings{.kind = kind, .root_beta = 1.5};
        const double upper = std::isfinite(c.upper) ? c.upper : 1e3, lower = std::isfinite(c.lower) ? c.lower : -1e3;
        if (std::abs(upper - std::max(c.best, lower)) < 0.05 || upper - lower < 0.1) continue;
        const TruncatedTerm t = EvaluateTruncated(settings, normalised, c.mean, c.sd, c.best, lower, upper);
        if (IsLogarithm(kind) && t.value < -1e29) continue;  // A slope to climb by, not a derivative in doubles.
        const math::GradientCheck check = math::CheckGradient(
            [&](const VectorXd& x) {
              return EvaluateTruncated(settings, normalised, x(0), x(1), c.best, x(2), x(3)).value;
            },
            (VectorXd(4) << c.mean, c.sd, lower, upper).finished(),
            (VectorXd(4) << t.by_mean, t.by_deviation, t.by_lower, t.by_upper).finished(), 1e-6);
        EXPECT_LT(check.error, 1e-6) << static_cast<int>(kind) << normalised << " " << c.mean << " " << c.sd << " "
                                     << c.best << " " << lower << " " << upper << " " << check.Summary();
      }
    }
  }
}

TEST(TruncatedTerms, PublishedDerivativesHold) {
  // d/dmu = P - (U - y*) N_U, d/dsigma = sigma (N_y* - N_U) - (U - y*)(U - mu) N_U/sigma, d/dU = (U - y*) N_U.
  const double mean = 0.3, sd = 0.7, best = 0.1, upper = 0.9;
  const double n_best = std::exp(-0.5 * std::pow((best - mean) / sd, 2)) / (sd * std::sqrt(2.0 * M_PI));
  const double n_upper = std::exp(-0.5 * std::pow((upper - mean) / sd, 2)) / (sd * std::sqrt(2.0 * M_PI));
  const TruncatedTerm t = EvaluateTruncated({.kind = kEi}, false, mean, sd, best, -1.0, upper);
  const double p = Truncated(kPi, false, mean, sd, best, -1.0, upper);
  EXPECT_NEAR(t.by_mean, p - (upper - best) * n_upper, 1e-14);
  EXPECT_NEAR(t.by_deviation, sd * (n_best - n_upper) - (upper - best) * (upper - mean) * n_upper / sd, 1e-14);
  EXPECT_NEAR(t.by_upper, (upper - best) * n_upper, 1e-14);
  EXPECT_EQ(t.by_lower, 0.0);
}

struct Problem {
  MatrixXd x;
  VectorXd y;
  std::vector<gp::Regression> models;
  std::vector<ModelState> states;
};

Problem SomeProblem(int count = 20) {
  Problem p;
  base::RandomStream stream(21, "truncated gp");
  p.x.resize(count, 2);
  p.y.resize(count);
  for (int i = 0; i < count; ++i) {
    p.x(i, 0) = stream.Uniform();
    p.x(i, 1) = stream.Uniform();
    p.y(i) = std::sin(7.0 * p.x(i, 0)) * std::cos(4.0 * p.x(i, 1));
  }
  for (int s = 0; s < 3; ++s) {
    gp::Hyperparameters theta;
    theta.lengthscales = (VectorXd(2) << 0.2 + 0.1 * s, 0.4).finished();
    p.models.push_back(
        *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta, p.x, p.y, {}, base::StopToken())
             .value());
  }
  for (const gp::Regression& model : p.models) p.states.push_back({&model, p.y.maxCoeff()});
  return p;
}

TEST(TruncatedAcquisition, GradientsRunThroughTheBandAndBatchesMatch) {
  const Problem p = SomeProblem();
  const LipschitzBounds bounds(p.x, p.y, 1.2 * SteepestSlope(p.x, p.y));
  base::RandomStream stream(22, "truncated points");
  for (const AcquisitionKind kind : {kEi, kLogEi, kPi, kLogPi, kUcb}) {
    for (const bool normalised : {false, true}) {
      const TruncatedAcquisition acquisition(p.states, {.kind = kind, .root_beta = 3.0}, &bounds, normalised);
      int checked = 0;
      while (checked < 8) {
        const VectorXd u = (VectorXd(2) << stream.Uniform(), stream.Uniform()).finished();
        VectorXd gradient;
        const double value = acquisition.Value(u, &gradient);
        EXPECT_NEAR(acquisition.Values(u.transpose())(0), value, 1e-6 * std::max(1.0, std::abs(value)));
        EXPECT_EQ(acquisition.Value(u, nullptr), value);
        ++checked;
        if (std::abs(value) > 1e29) continue;
        const math::GradientCheck check =
            math::CheckGradient([&](const VectorXd& x) { return acquisition.Value(x, nullptr); }, u, gradient);
        EXPECT_LT(check.error, 2e-4) << static_cast<int>(kind) << normalised << " " << check.Summary();
      }
      EXPECT_EQ(acquisition.bind_count().evaluated, 8);
    }
  }
}

TEST(TruncatedAcquisition, NoBoundIsThePlainAcquisitionBitForBit) {
  const Problem p = SomeProblem();
  const LipschitzBounds off(p.x, p.y, kNoBound);
  base::RandomStream stream(23, "no bound");
  MatrixXd u(30, 2);
  for (double& x : u.reshaped()) x = stream.Uniform();
  for (const AcquisitionKind kind : {kEi, kLogEi, kPi, kLogPi, kUcb}) {
    const AcquisitionSettings settings{.kind = kind, .root_beta = 3.0};
    const ModelAcquisition plain(p.states, settings);
    const TruncatedAcquisition truncated(p.states, settings, &off);
    EXPECT_EQ(plain.Values(u), truncated.Values(u));
    EXPECT_EQ(truncated.bind_count().bound, 0);
    VectorXd a, b;
    EXPECT_EQ(plain.Value(u.row(0).transpose(), &a), truncated.Value(u.row(0).transpose(), &b));
    EXPECT_EQ(a, b);
    if (kind == kUcb) {
      const AcceptRejectAcquisition reject(&plain, &off);
      EXPECT_EQ(plain.Values(u), reject.Values(u));
      EXPECT_EQ(reject.bind_count().bound, 0);
    }
  }
}

TEST(TruncatedAcquisition, AnEndlessWeightMakesTheUpperConfidenceBoundPiyavskiis) {
  const Problem p = SomeProblem();
  const LipschitzBounds bounds(p.x, p.y, 2.0 * SteepestSlope(p.x, p.y));
  base::RandomStream stream(24, "endless");
  MatrixXd u(100, 2);
  for (double& x : u.reshaped()) x = stream.Uniform();
  const TruncatedAcquisition ucb({p.states[0]}, {.kind = kUcb, .root_beta = 1e12}, &bounds);
  VectorXd lower, upper;
  bounds.Evaluate(u, &lower, &upper);
  EXPECT_EQ(ucb.Values(u), upper);
  EXPECT_EQ(ucb.bind_count().rate(), 1.0);
}

TEST(AcceptReject, AcceptsExactlyTheBand) {
  const Problem p = SomeProblem();
  const double slope = SteepestSlope(p.x, p.y);
  const ModelAcquisition ucb({p.states[0]}, {.kind = kUcb, .root_beta = 2.0});
  base::RandomStream stream(25, "band");
  MatrixXd u(300, 2);
  for (double& x : u.reshaped()) x = stream.Uniform();
  const VectorXd g = ucb.Values(u);
  for (const double slack : {0.0, 0.2}) {
    const LipschitzBounds bounds(p.x, p.y, 1.01 * slope, slack);
    const AcceptRejectAcquisition reject(&ucb, &bounds);
    const VectorXd values = reject.Values(u);
    int rejected = 0;
    for (int i = 0; i < u.rows(); ++i) {
      bool inside = true;
      for (int k = 0; k < p.y.size(); ++k) {
        if (std::abs(g(i) - p.y(k)) > 1.01 * slope * (u.row(i) - p.x.row(k)).norm() + slack) inside = false;
      }
      EXPECT_EQ(values(i), inside ? g(i) : -kNoBound);
      EXPECT_EQ(reject.Rejected(u.row(i).transpose()), !inside);
      if (!inside) ++rejected;
    }
    EXPECT_GT(rejected, 0);
    EXPECT_EQ(reject.bind_count().bound, rejected);
    EXPECT_EQ(reject.bind_count().evaluated, 300);
  }
  // At the data themselves: accepted if and only if |g - y_i| <= slack.
  const VectorXd at_data = ucb.Values(p.x);
  const LipschitzBounds wide(p.x, p.y, slope, 0.01);
  const VectorXd values = AcceptRejectAcquisition(&ucb, &wide).Values(p.x);
  for (int i = 0; i < p.y.size(); ++i) {
    EXPECT_EQ(std::isfinite(values(i)), std::abs(at_data(i) - p.y(i)) <= 0.01);
  }
}

TEST(AcceptReject, LocalSearchNeverLeavesTheBand) {
  const Problem p = SomeProblem();
  const LipschitzBounds bounds(p.x, p.y, 1.05 * SteepestSlope(p.x, p.y));
  const ModelAcquisition ucb({p.states[1]}, {.kind = kUcb, .root_beta = 2.5});
  const AcceptRejectAcquisition reject(&ucb, &bounds);
  base::RandomStream stream(26, "starts");
  int searched = 0, refused = 0;
  for (int i = 0; i < 60; ++i) {
    const VectorXd start = (VectorXd(2) << stream.Uniform(), stream.Uniform()).finished();
    const math::LbfgsResult end = math::MinimizeLbfgs(
                                      [&](const VectorXd& u, VectorXd* gradient) {
                                        const double value = reject.Value(u, gradient);
                                        if (gradient != nullptr) *gradient = -*gradient;
                                        return -value;
                                      },
                                      start, VectorXd::Zero(2), VectorXd::Ones(2), {}, base::StopToken())
                                      .value();
    if (reject.Rejected(start)) {
      EXPECT_EQ(end.outcome, math::LbfgsOutcome::kNotFiniteAtStart);
      ++refused;
      continue;
    }
    ++searched;
    EXPECT_FALSE(reject.Rejected(end.x));
    EXPECT_GE(-end.value, ucb.Value(start, nullptr) - 1e-6);
  }
  EXPECT_GT(searched, 0);
  EXPECT_GT(refused, 0);
}

TEST(AcceptReject, DecisionsDoNotDependOnTheUnitsOfTheOutputs) {
  const Problem p = SomeProblem();
  base::RandomStream stream(27, "units");
  MatrixXd u(200, 2);
  for (double& x : u.reshaped()) x = stream.Uniform();
  gp::Hyperparameters theta = p.models[0].hyperparameters();
  auto rejected = [&](double a, double b) {
    // The user's outputs are a y + b; the model sees them standardised again, and L is divided by a.
    const VectorXd raw = a * p.y.array() + b;
    const double slope = SteepestSlope(p.x, raw);
    const VectorXd z = (raw.array() - b) / a;
    const LipschitzBounds bounds(p.x, z, 1.05 * slope / a);
    const gp::Regression model =
        *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta, p.x, z, {}, base::StopToken())
             .value();
    const ModelAcquisition ucb({{&model, z.maxCoeff()}}, {.kind = kUcb, .root_beta = 2.0});
    const VectorXd values = AcceptRejectAcquisition(&ucb, &bounds).Values(u);
    std::vector<bool> result;
    for (double v : values) result.push_back(v == -kNoBound);
    return result;
  };
  const std::vector<bool> plain = rejected(1.0, 0.0);
  EXPECT_GT(std::count(plain.begin(), plain.end(), true), 0);
  EXPECT_EQ(plain, rejected(1024.0, 0.0));
  EXPECT_EQ(plain, rejected(37.5, -12.0));
}

}  // namespace
}  // namespace luthier::search
