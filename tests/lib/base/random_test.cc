#include "lib/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace luthier::base {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of philox4x32_10 published with Random123 (kat_vectors).
TEST(PhiloxTest, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStreamTest, TheSameNameGivesTheSameNumbersAndAnyOtherNameOthers) {
  const auto first = [](RandomStream stream) { return stream.NextU64(); };
  EXPECT_EQ(first(RandomStream(7, "explore", 3, 2)), first(RandomStream(7, "explore", 3, 2)));
  std::set<uint64_t> values;
  values.insert(first(RandomStream(7, "explore", 3, 2)));
  values.insert(first(RandomStream(8, "explore", 3, 2)));
  values.insert(first(RandomStream(7, "explorf", 3, 2)));
  values.insert(first(RandomStream(7, "explore", 4, 2)));
  values.insert(first(RandomStream(7, "explore", uint64_t{3} | (uint64_t{1} << 32), 2)));
  values.insert(first(RandomStream(7, "explore", 3, 3)));
  values.insert(first(RandomStream(7, "", 3, 2)));
  EXPECT_EQ(values.size(), 7u);
}

// Short purposes and small seeds that differ by the same bit, as names and seeds in use do.
TEST(RandomStreamTest, NeighbouringSeedsAndPurposesDoNotMeet) {
  std::set<uint64_t> values;
  for (uint64_t seed = 0; seed < 256; ++seed) {
    for (const char* purpose : {"acq", "acp", "acr", "grid", "grif", "init", "inis"}) {
      values.insert(RandomStream(seed, purpose).NextU64());
    }
  }
  EXPECT_EQ(values.size(), 256u * 7u);
}

// These numbers are part of every stored study: they must never change.
TEST(RandomStreamTest, StreamsNeverChange) {
  RandomStream stream(1, "golden", 2, 3);
  EXPECT_EQ(stream.NextU64(), 4997932222557119689u);
  EXPECT_EQ(stream.NextU64(), 627151772323013151u);
  EXPECT_EQ(stream.NextU64(), 13368313250915535787u);
}

TEST(RandomStreamTest, ACopyContinuesWhereTheOriginalWas) {
  RandomStream a(1, "copy");
  a.NextU64();
  RandomStream b = a;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.NextU64(), b.NextU64());
}

TEST(RandomStreamTest, UniformsFillTheUnitIntervalEvenly) {
  constexpr int kDraws = 200'000;
  constexpr int kBins = 64;
  RandomStream stream(11, "uniform");
  std::vector<int> bins(kBins);
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.Uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * kBins)];
  }
  double chi2 = 0.0;
  for (const int count : bins) chi2 += std::pow(count - double{kDraws} / kBins, 2) / (double{kDraws} / kBins);
  EXPECT_LT(chi2, 115.0);  // 63 degrees of freedom, p > 1e-4.
}

TEST(RandomStreamTest, OpenUniformsAreNeverAnEnd) {
  RandomStream stream(12, "open");
  for (int i = 0; i < 100'000; ++i) {
    const double u = stream.UniformOpen();
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
  }
}

TEST(RandomStreamTest, IntegersAreEquallyLikely) {
  // Upper 1e-4 points of chi-squared with n - 1 degrees of freedom.
  const std::vector<std::pair<uint64_t, double>> cases = {{2, 15.2}, {3, 18.5}, {7, 27.9}, {10, 33.8}, {100, 161.4}};
  for (const auto& [n, limit] : cases) {
    constexpr int kDraws = 100'000;
    RandomStream stream(13, "ints", n);
    std::vector<int> bins(n);
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t k = stream.UniformInt(n);
      ASSERT_LT(k, n);
      ++bins[k];
    }
    const double expected = double{kDraws} / static_cast<double>(n);
    double chi2 = 0.0;
    for (const int count : bins) chi2 += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi2, limit) << "n = " << n;
  }
}

TEST(RandomStreamTest, IntegersOfExtremeRangesStayInside) {
  RandomStream stream(14, "extreme");
  EXPECT_EQ(stream.UniformInt(1), 0u);
  // The rejection makes 2^63+1 values equally likely: about half of them lie in the upper half.
  const uint64_t n = (uint64_t{1} << 63) + 1;
  int upper = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t k = stream.UniformInt(n);
    ASSERT_LT(k, n);
    if (k >= n / 2) ++upper;
  }
  EXPECT_NEAR(upper, 5000, 200);  // Four standard deviations.
}

TEST(RandomStreamTest, NormalsHaveTheirMoments) {
  constexpr int kDraws = 200'000;
  RandomStream stream(15, "normal");
  double sum = 0.0, sum2 = 0.0, sum3 = 0.0, sum4 = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double z = stream.Normal();
    sum += z;
    sum2 += z * z;
    sum3 += z * z * z;
    sum4 += z * z * z * z;
  }
  // Five standard errors: sqrt(1, 2, 15, 96) / sqrt(draws).
  const double root = std::sqrt(double{kDraws});
  EXPECT_NEAR(sum / kDraws, 0.0, 5 / root);
  EXPECT_NEAR(sum2 / kDraws, 1.0, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(sum3 / kDraws, 0.0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(sum4 / kDraws, 3.0, 5 * std::sqrt(96.0) / root);
}

TEST(RandomStreamTest, ChiSquaredHasItsMoments) {
  constexpr int kDraws = 50'000;
  RandomStream stream(16, "chi2");
  EXPECT_EQ(stream.ChiSquared(0), 0.0);
  double sum = 0.0, sum2 = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.ChiSquared(3);
    sum += x;
    sum2 += x * x;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 3.0, 0.06);
  EXPECT_NEAR(sum2 / kDraws - mean * mean, 6.0, 0.4);
}

TEST(RandomStreamTest, GammaHasItsMomentsAndItsExponentialCase) {
  constexpr int kDraws = 50'000;
  for (double shape : {0.3, 1.0, 4.5}) {
    RandomStream stream(18, "gamma");
    double sum = 0.0, sum2 = 0.0;
    int above = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = stream.Gamma(shape);
      EXPECT_GT(x, 0.0);
      sum += x;
      sum2 += x * x;
      above += x > 1.0;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, shape, 5.0 * std::sqrt(shape / kDraws));
    EXPECT_NEAR(sum2 / kDraws - mean * mean, shape, 0.1 * shape);
    if (shape == 1.0) {
      EXPECT_NEAR(above / static_cast<double>(kDraws), std::exp(-1.0), 0.01);
    }
  }
}

TEST(RandomStreamTest, ShuffleMakesEveryOrderEquallyLikely) {
  RandomStream stream(17, "shuffle");
  std::vector<int> counts(27);
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<int> v = {0, 1, 2};
    stream.Shuffle(v);
    ++counts[static_cast<size_t>(9 * v[0] + 3 * v[1] + v[2])];
  }
  double chi2 = 0.0;
  int orders = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++orders;
    chi2 += std::pow(count - kDraws / 6.0, 2) / (kDraws / 6.0);
  }
  EXPECT_EQ(orders, 6);
  EXPECT_LT(chi2, 25.8);  // 5 degrees of freedom, p > 1e-4.
}

// Bisection of erfc with 50 digits, at the doubles nearest to these decimals.
struct Quantile {
  double p;
  double z;
};
constexpr Quantile kQuantiles[] = {
    {1e-300, -37.047096299361199237},
    {1e-100, -21.273453560965324294},
    {1e-20, -9.2623400897984075796},
    {1e-10, -6.3613409024040561991},
    {1e-5, -4.2648907939228246102},
    {0.001, -3.0902323061678135354},
    {0.025, -1.9599639845400542118},
    {0.07, -1.4757910281791706856},
    {0.075, -1.4395314709384559349},
    {0.08, -1.4050715603096325447},
    {0.25, -0.6744897501960817432},
    {0.4, -0.25334710313579974132},
    {0.5, 0.0},
    {0.5000001, 2.5066282733116483012e-7},
    {0.6, 0.25334710313579974132},
    {0.92, 1.4050715603096328248},
    {0.925, 1.4395314709384562291},
    {0.93, 1.475791028179171099},
    {0.975, 1.9599639845400538556},
    {0.999, 3.0902323061678132778},
    {0.99999, 4.2648907939238407699},
    {0.9999999999, 6.3613408896974218642},
};

TEST(NormalQuantileTest, AgreesWithAHighPrecisionTable) {
  for (const Quantile& q : kQuantiles) {
    EXPECT_NEAR(NormalQuantile(q.p), q.z, 2e-15 * std::abs(q.z)) << "p = " << q.p;
  }
}

TEST(NormalQuantileTest, TheEndsAreInfiniteAndTheRestIsNaN) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(NormalQuantile(0.0), -inf);
  EXPECT_EQ(NormalQuantile(1.0), inf);
  EXPECT_TRUE(std::isnan(NormalQuantile(-0.1)));
  EXPECT_TRUE(std::isnan(NormalQuantile(1.1)));
  EXPECT_TRUE(std::isnan(NormalQuantile(std::nan(""))));
}

TEST(NormalQuantileTest, IsMonotone) {
  double previous = -std::numeric_limits<double>::infinity();
  for (int i = 1; i < 100'000; ++i) {
    const double z = NormalQuantile(i / 100'000.0);
    ASSERT_GT(z, previous) << i;
    previous = z;
  }
}

}  // namespace
}  // namespace luthier::base
