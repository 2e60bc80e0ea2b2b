#include "lib/search/tpe/parzen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/math/special_functions.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using namespace study;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<study::CompactColumn> Columns(const Encoding& encoding) {
  std::vector<study::CompactColumn> columns;
  for (int c = 0; c < encoding.compact_dim(); ++c) columns.emplace_back(encoding, c);
  return columns;
}

// n settings as rows; a third of them crowd in a corner, so that kernels of many widths appear.
MatrixXd Observations(const Encoding& encoding, int n, uint64_t seed) {
  base::RandomStream random(seed, "test/observations");
  MatrixXd rows(n, encoding.compact_dim());
  for (Index i = 0; i < n; ++i) {
    VectorXd u(encoding.compact_dim());
    for (double& x : u) x = i % 3 == 0 ? 0.1 * random.Uniform() : random.Uniform();
    rows.row(i) = encoding.ToCompact(encoding.FromCompact(u));
  }
  return rows;
}

double DensityAt(const ParzenMixture& mixture, const VectorXd& point) {
  return std::exp(mixture.LogDensity(point.transpose(), base::StopToken()).value()(0));
}

SearchSpace AllKinds() {
  return Space({Float("x", -3, 5), Float("l2", 1e-8, 1e4, Scale::kLog), Int("n", 3, 9),
                Int("units", 1, 300, 1, Scale::kLog), Float("drop", 0, 0.5, Scale::kLinear, 0.1),
                Ordinal("size", {"s", "m", "l"}), Categorical("kernel", {"rbf", "poly", "linear", "sigmoid"}),
                Bool("bias")});
}

TEST(CompactColumnTest, CanonicalIsWhatTheEncodingMakesOfTheDecodedValue) {
  const Encoding encoding(AllKinds());
  const std::vector<study::CompactColumn> columns = Columns(encoding);
  base::RandomStream random(1, "test/canonical");
  for (int k = 0; k < 2000; ++k) {
    VectorXd u(encoding.compact_dim());
    for (double& x : u) x = random.Uniform();
    const VectorXd expected = encoding.ToCompact(encoding.FromCompact(u));
    for (Index c = 0; c < u.size(); ++c) {
      const double canonical = columns[static_cast<size_t>(c)].Canonical(u(c));
      EXPECT_NEAR(canonical, expected(c), 1e-12) << c << " at " << u(c);
      if (columns[static_cast<size_t>(c)].kind() != study::CompactColumn::Kind::kOrdered) continue;
      const study::CompactColumn::Cell cell = columns[static_cast<size_t>(c)].CellOf(u(c));
      EXPECT_LE(cell.low, u(c) + 1e-12);
      EXPECT_GE(cell.high, u(c) - 1e-12);
    }
  }
}

// Simpson's rule with many nodes: kernels are at least a hundredth wide.
TEST(ParzenMixtureTest, DensitiesOfNumbersIntegrateToOne) {
  const Encoding encoding(Space({Float("x", 0, 1)}));
  for (const int n : {0, 1, 2, 3, 30, 400}) {
    const ParzenMixture mixture(Columns(encoding), Observations(encoding, n, 5));
    constexpr Index kCells = 20'000;
    MatrixXd points(kCells + 1, 1);
    for (Index i = 0; i <= kCells; ++i) points(i, 0) = static_cast<double>(i) / kCells;
    const VectorXd log_density = mixture.LogDensity(points, base::StopToken()).value();
    double sum = 0.0;
    for (Index i = 0; i <= kCells; ++i) {
      const double weight = i == 0 || i == kCells ? 1.0 : i % 2 == 1 ? 4.0 : 2.0;
      sum += weight * std::exp(log_density(i));
    }
    EXPECT_NEAR(sum / (3.0 * kCells), 1.0, 1e-6) << n;
  }
}

TEST(ParzenMixtureTest, ProbabilitiesOfLevelsSumToOne) {
  const SearchSpace spaces[] = {
      Space({Int("n", 3, 40)}),
      Space({Int("units", 1, 300, 1, Scale::kLog)}),
      Space({Float("drop", 0, 0.5, Scale::kLinear, 0.1)}),
      Space({Categorical("kernel", Labels(7))}),
      Space({Bool("b")}),
      Space({Bool("b"), Int("n", 0, 4), Categorical("c", Labels(3)), Ordinal("o", Labels(4))})};
  for (const SearchSpace& space : spaces) {
    const Encoding encoding(space);
    for (const int n : {0, 1, 2, 50}) {
      const ParzenMixture mixture(Columns(encoding), Observations(encoding, n, 6));
      double sum = 0.0;
      const int64_t cells = space.Cardinality().value();
      for (int64_t cell = 0; cell < cells; ++cell) {
        Parameters setting;
        int64_t rest = cell;
        for (int i = 0; i < space.size(); ++i) {
          setting[space.parameters()[static_cast<size_t>(i)].name] = space.LevelValue(i, rest % *space.Levels(i));
          rest /= *space.Levels(i);
        }
        sum += DensityAt(mixture, encoding.ToCompact(setting));
      }
      EXPECT_NEAR(sum, 1.0, 1e-12) << space.parameters()[0].name << " " << n;
    }
  }
}

// The formulas of the header, the long way round.
TEST(ParzenMixtureTest, EqualsItsDefinition) {
  const SearchSpace space = Space({Float("x", 0, 1), Int("n", 0, 4), Categorical("c", Labels(3))});
  const Encoding encoding(space);
  const int n = 40;
  const MatrixXd observations = Observations(encoding, n, 7);
  const ParzenMixture mixture(Columns(encoding), observations);
  const double kernels = n + 1;
  const auto sigma = [&](int i, int j) {
    if (i == n) return 1.0;
    std::vector<double> sorted;
    for (int k = 0; k < n; ++k) sorted.push_back(observations(k, j));
    std::sort(sorted.begin(), sorted.end());
    // Of equal observations each has a place of its own: that of its index.
    int place = 0;
    for (int k = 0; k < n; ++k) {
      place += observations(k, j) < observations(i, j) || (observations(k, j) == observations(i, j) && k < i);
    }
    double gap = 0.0;
    if (place > 0) gap = std::max(gap, sorted[static_cast<size_t>(place)] - sorted[static_cast<size_t>(place - 1)]);
    if (place + 1 < n) gap = std::max(gap, sorted[static_cast<size_t>(place + 1)] - sorted[static_cast<size_t>(place)]);
    return std::clamp(gap, 1.0 / std::min(100.0, kernels + 1.0), 1.0);
  };
  const auto phi = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  const MatrixXd points = Observations(encoding, 25, 8);
  for (Index p = 0; p < points.rows(); ++p) {
    double sum = 0.0, weights = 0.0;
    for (int i = 0; i <= n; ++i) {
      const double weight = i == n || i >= n - 25 ? 1.0 : 1.0 / n + i / 14.0 * (1.0 - 1.0 / n);
      const double mean[] = {i == n ? 0.5 : observations(i, 0), i == n ? 0.5 : observations(i, 1)};
      const double s0 = sigma(i, 0), s1 = sigma(i, 1);
      const double z = (points(p, 0) - mean[0]) / s0;
      const double continuous =
          std::exp(-0.5 * z * z) / (s0 * std::sqrt(2.0 * M_PI) * (phi((1.0 - mean[0]) / s0) - phi(-mean[0] / s0)));
      const double low = std::floor(points(p, 1) * 5.0) / 5.0;
      const double ordered = (phi((low + 0.2 - mean[1]) / s1) - phi((low - mean[1]) / s1)) /
                             (phi((1.0 - mean[1]) / s1) - phi(-mean[1] / s1));
      const double own = i < n && observations(i, 2) == points(p, 2) ? 1.0 : 0.0;
      const double label = i == n ? 1.0 / 3.0 : (own + 1.0 / kernels) / (1.0 + 3.0 / kernels);
      sum += weight * continuous * ordered * label;
      weights += weight;
    }
    EXPECT_NEAR(DensityAt(mixture, points.row(p)) * weights / sum, 1.0, 1e-9);
  }
}

// Kolmogorov-Smirnov against the numerically integrated density; 1.95/sqrt(N) is p = 1e-3, 2.23/sqrt(N) p = 1e-4.
TEST(ParzenMixtureTest, SamplesFollowTheDensity) {
  const Encoding encoding(Space({Float("x", 0, 1)}));
  for (const int n : {0, 1, 20}) {
    const ParzenMixture mixture(Columns(encoding), Observations(encoding, n, 9));
    base::RandomStream random(3, "test/samples", static_cast<uint64_t>(n));
    std::vector<double> samples;
    constexpr int kSamples = 20'000;
    for (int k = 0; k < kSamples; ++k) samples.push_back(mixture.Sample(random)(0));
    std::sort(samples.begin(), samples.end());
    constexpr int kCells = 20'000;
    double cdf = 0.0, distance = 0.0;
    size_t below = 0;
    for (int i = 0; i < kCells; ++i) {
      cdf += DensityAt(mixture, VectorXd::Constant(1, (i + 0.5) / kCells)) / kCells;
      while (below < samples.size() && samples[below] <= (i + 1.0) / kCells) ++below;
      distance = std::max(distance, std::abs(cdf - static_cast<double>(below) / kSamples));
    }
    EXPECT_LT(distance, 2.23 / std::sqrt(kSamples)) << n;
  }
}

TEST(ParzenMixtureTest, SamplesOfLevelsAreAsFrequentAsTheirProbability) {
  const SearchSpace space = Space({Int("n", 1, 12, 1, Scale::kLog), Categorical("c", Labels(3))});
  const Encoding encoding(space);
  const ParzenMixture mixture(Columns(encoding), Observations(encoding, 30, 10));
  base::RandomStream random(4, "test/samples");
  std::map<std::string, int> counts;
  constexpr int kSamples = 50'000;
  for (int k = 0; k < kSamples; ++k) ++counts[FormatParameters(encoding.FromCompact(mixture.Sample(random)))];
  double chi2 = 0.0;
  for (int i = 0; i < 12; ++i) {
    for (int c = 0; c < 3; ++c) {
      const Parameters setting = {{"n", space.LevelValue(0, i)}, {"c", space.LevelValue(1, c)}};
      const double expected = kSamples * DensityAt(mixture, encoding.ToCompact(setting));
      const double difference = counts[FormatParameters(setting)] - expected;
      chi2 += difference * difference / expected;
    }
  }
  EXPECT_LT(chi2, 76.0);  // 35 degrees of freedom, p > 1e-4.
}

TEST(ParzenMixtureTest, ManyLevelsAreAlmostADensity) {
  const Encoding ints(Space({Int("n", 0, (int64_t{1} << 40) - 1)})), floats(Space({Float("x", 0, 1)}));
  const MatrixXd observations = Observations(floats, 20, 11);
  const ParzenMixture a(Columns(ints), observations);
  const ParzenMixture b(Columns(floats), observations);
  for (const double u : {0.0, 1e-6, 0.05, 0.3, 0.999}) {
    const VectorXd point = VectorXd::Constant(1, u);
    EXPECT_NEAR(std::log(DensityAt(a, point)) + 40.0 * std::log(2.0), std::log(DensityAt(b, point)), 1e-6) << u;
  }
}

TEST(ParzenWeightsTest, TheLast25CountInFullAndOlderOnesLess) {
  EXPECT_TRUE(ParzenWeights(0).empty());
  for (const double w : ParzenWeights(25)) EXPECT_EQ(w, 1.0);
  EXPECT_EQ(ParzenWeights(26).front(), 1.0 / 26.0);
  const std::vector<double> weights = ParzenWeights(45);
  EXPECT_DOUBLE_EQ(weights[0], 1.0 / 45.0);
  EXPECT_NEAR(weights[1] - weights[0], weights[10] - weights[9], 1e-15);
  for (size_t i = 19; i < 45; ++i) EXPECT_EQ(weights[i], 1.0);
}

TEST(TruncatedNormalQuantileTest, InvertsTheDistributionFunction) {
  for (const auto& [mean, sigma, low, high] : std::vector<std::array<double, 4>>{{0.5, 1.0, 0.0, 1.0},
                                                                                 {0.0, 0.01, 0.0, 1.0},
                                                                                 {1.0, 0.01, 0.0, 1.0},
                                                                                 {-3.0, 0.5, 0.0, 1.0},
                                                                                 {4.0, 0.3, 0.0, 1.0},
                                                                                 {0.2, 1e-3, 0.0, 1.0}}) {
    double last = low;
    for (const double p : {1e-12, 1e-3, 0.1, 0.5, 0.7, 0.999, 1.0 - 1e-12}) {
      const double x = TruncatedNormalQuantile(p, mean, sigma, low, high);
      EXPECT_GE(x, last);
      EXPECT_LE(x, high);
      last = x;
      const double a = (low - mean) / sigma, z = (x - mean) / sigma, b = (high - mean) / sigma;
      const double share = math::NormalCdfDifference(z, a) / math::NormalCdfDifference(b, a);
      EXPECT_NEAR(share, p, 1e-9 + 1e-6 * p * (1.0 - p)) << mean << " " << sigma;
    }
  }
}

}  // namespace
}  // namespace luthier::search
