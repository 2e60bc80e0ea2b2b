#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "lib/spectral/recovery.h"
#include "tests/lib/spectral/testing.h"

// How often recovery succeeds, over enough seeds to tell. Bounds leave room below the rates printed.
namespace luthier::spectral {
namespace {

using Eigen::VectorXd;

constexpr int kBits = 60;

struct Rates {
  double exact = 0.0;      // Share of seeds with all terms and no other.
  double recovered = 0.0;  // Mean share of terms.
};

Rates Sparse(int seeds, int terms, int samples, double noise) {
  Rates rates;
  for (int seed = 0; seed < seeds; ++seed) {
    base::RandomStream random(static_cast<uint64_t>(seed), "test/rates");
    const Polynomial g = RandomPolynomial(random, kBits, terms, 3);
    const BitMatrix x = RandomBits(random, samples, kBits);
    RecoveryOptions options;
    options.terms = terms;
    const Polynomial found =
        RecoverUngated(x, NoisyValues(random, g, x, noise), AllBits(kBits), options, base::StopToken())
            .value()
            .polynomial;
    rates.exact += (Support(found) == Support(g) ? 1.0 : 0.0) / seeds;
    rates.recovered += Recovered(g, found) / seeds;
  }
  std::printf("s=%d T=%d noise=%.1f: exact %.2f, recovered %.2f\n", terms, samples, noise, rates.exact,
              rates.recovered);
  return rates;
}

TEST(RecoveryRates, SparsePolynomials) {
  constexpr double kAll = 1.0 - 1e-9;
  EXPECT_GE(Sparse(20, 5, 300, 0.3).exact, kAll);
  EXPECT_GE(Sparse(20, 5, 100, 0.3).recovered, 0.75);
  EXPECT_GE(Sparse(20, 5, 150, 0.3).exact, 0.95);
  EXPECT_GE(Sparse(20, 5, 300, 1.0).recovered, 0.8);
  EXPECT_GE(Sparse(20, 8, 300, 0.3).exact, kAll);
  EXPECT_GE(Sparse(20, 12, 300, 0.3).recovered, 0.9);
  EXPECT_GE(Sparse(20, 12, 1000, 0.3).exact, kAll);
}

// f of 4 of the 60 bits by a random truth table.
TEST(RecoveryRates, JuntasOfFourBits) {
  int inside = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    base::RandomStream random(seed, "test/junta");
    const std::array<int, 4> bits = {3, 17, 31, 59};
    std::array<double, 16> table{};
    for (double& v : table) v = random.Uniform() < 0.5 ? 0.0 : 1.0;
    const BitMatrix x = RandomBits(random, 300, kBits);
    VectorXd y(300);
    for (int i = 0; i < 300; ++i) {
      size_t row = 0;
      for (const int bit : bits) row = 2 * row + (x(i, bit) < 0 ? 1 : 0);
      y[i] = table[row];
    }
    const Recovery recovery = Recover(x, y, AllBits(kBits), {}, base::StopToken()).value();
    bool all = true;
    for (const int bit : Variables(recovery.polynomial)) {
      all = all && std::find(bits.begin(), bits.end(), bit) != bits.end();
    }
    inside += !recovery.believed || all ? 1 : 0;
  }
  std::printf("juntas: J inside in %d of 40\n", inside);
  EXPECT_GE(inside, 38);
}

// A complete tree of depth 3 with 7 different split bits and 8 random leaves.
TEST(RecoveryRates, DecisionTrees) {
  int inside = 0;
  double largest = 0.0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    base::RandomStream random(seed, "test/tree");
    std::vector<int> bits = AllBits(kBits);
    random.Shuffle(bits);
    bits.resize(7);
    std::array<double, 8> leaves{};
    for (double& leaf : leaves) leaf = random.Normal();
    const auto value = [&](const std::function<bool(int)>& minus) {
      size_t node = 0;
      for (int level = 0; level < 3; ++level) node = 2 * node + (minus(bits[node]) ? 2 : 1);
      return leaves[node - 7];
    };
    const BitMatrix x = RandomBits(random, 300, kBits);
    VectorXd y(300);
    for (int i = 0; i < 300; ++i) y[i] = value([&](int bit) { return x(i, bit) < 0; });
    const Recovery recovery = Recover(x, y, AllBits(kBits), {}, base::StopToken()).value();
    const double deviation = std::sqrt(recovery.variance);
    bool all = true;
    for (const Term& term : recovery.polynomial.terms) {
      for (const int bit : term.bits) all = all && std::find(bits.begin(), bits.end(), bit) != bits.end();
      // The exact coefficient, by enumeration of the seven bits.
      double exact = 0.0;
      for (int code = 0; code < 128; ++code) {
        const auto minus = [&](int bit) {
          const auto at = std::find(bits.begin(), bits.end(), bit) - bits.begin();
          return at < 7 && ((code >> at) & 1);
        };
        double parity = 1.0;
        for (const int bit : term.bits) parity *= minus(bit) ? -1.0 : 1.0;
        exact += parity * value(minus) / 128.0;
      }
      if (all) largest = std::max(largest, std::abs(term.weight - exact) / (deviation / std::sqrt(300.0)));
    }
    inside += all ? 1 : 0;
  }
  std::printf("trees: J inside in %d of 40, largest error %.2f sd/sqrt(T)\n", inside, largest);
  EXPECT_GE(inside, 38);
  EXPECT_LE(largest, 4.0);
}

TEST(RecoveryRates, DummiesAreLeftOut) {
  int clean = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    base::RandomStream random(seed, "test/dummies");
    const Polynomial g = RandomPolynomial(random, 39, 8, 3);
    const BitMatrix x = RandomBits(random, 300, kBits);
    const Recovery recovery = Recover(x, NoisyValues(random, g, x, 0.3), AllBits(kBits), {}, base::StopToken()).value();
    const std::vector<int> variables = Variables(recovery.polynomial);
    clean += variables.empty() || variables.back() < 39 ? 1 : 0;
  }
  std::printf("dummies: none selected in %d of 40\n", clean);
  EXPECT_GE(clean, 38);
}

TEST(RecoveryRates, NoiseClosesTheGate) {
  int closed = 0;
  double mean = 0.0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    base::RandomStream random(seed, "test/noise");
    const BitMatrix x = RandomBits(random, 300, kBits);
    VectorXd y(300);
    for (double& v : y) v = random.Normal();
    const Recovery recovery = Recover(x, y, AllBits(kBits), {}, base::StopToken()).value();
    closed += recovery.believed ? 0 : 1;
    mean += recovery.cv_r2 / 20.0;
  }
  std::printf("noise: gate closed in %d of 20, mean cross-validated R^2 %.2f\n", closed, mean);
  EXPECT_GE(closed, 19);
}

}  // namespace
}  // namespace luthier::spectral
