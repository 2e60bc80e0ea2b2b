#include "lib/spectral/parity_lasso.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "Eigen/Eigenvalues"
#include "tests/lib/spectral/testing.h"

namespace luthier::spectral {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// All sets of 1 … degree bits, by counting in base 2.
std::vector<std::vector<int>> AllSets(int bits, int degree) {
  std::vector<std::vector<int>> sets;
  for (int mask = 1; mask < (1 << bits); ++mask) {
    if (__builtin_popcount(static_cast<unsigned>(mask)) > degree) continue;
    std::vector<int> set;
    for (int b = 0; b < bits; ++b) {
      if ((mask >> b) & 1) set.push_back(b);
    }
    sets.push_back(set);
  }
  return sets;
}

MatrixXd ExplicitMatrix(const BitMatrix& x, const std::vector<std::vector<int>>& sets) {
  MatrixXd psi = MatrixXd::Ones(x.rows(), static_cast<Eigen::Index>(sets.size()));
  for (size_t k = 0; k < sets.size(); ++k) {
    for (const int bit : sets[k]) psi.col(static_cast<Eigen::Index>(k)).array() *= x.col(bit).cast<double>().array();
  }
  return psi;
}

struct Data {
  BitMatrix x;
  VectorXd y;
};

Data MakeData(uint64_t seed, int samples, int bits, double noise) {
  base::RandomStream random(seed, "test/lasso");
  Data data;
  data.x = RandomBits(random, samples, bits);
  const Polynomial g = RandomPolynomial(random, bits, 5, 3);
  data.y = NoisyValues(random, g, data.x, noise);
  data.y.array() -= data.y.mean();
  data.y /= std::sqrt(data.y.squaredNorm() / samples);
  return data;
}

// Proximal gradient on the explicit matrix: another method, to its fixed point.
VectorXd ReferenceLasso(const MatrixXd& psi, const VectorXd& y, double lambda) {
  const double t = static_cast<double>(psi.rows());
  const MatrixXd gram = psi.transpose() * psi / t;
  const VectorXd c = psi.transpose() * y / t;
  const double step = 1.0 / gram.selfadjointView<Eigen::Lower>().operatorNorm();
  VectorXd a = VectorXd::Zero(psi.cols());
  VectorXd z = a;
  double momentum = 1.0;
  for (int i = 0; i < 20000; ++i) {
    VectorXd next = z + step * (c - gram * z);
    for (double& v : next) v = v > lambda * step ? v - lambda * step : v < -lambda * step ? v + lambda * step : 0.0;
    const double m = (1.0 + std::sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0;
    z = next + (momentum - 1.0) / m * (next - a);
    momentum = m;
    if ((next - a).dot(next - z) > 0.0) momentum = 1.0;  // Restart.
    if (i > 100 && (next - a).cwiseAbs().maxCoeff() < 1e-13) break;
    a = next;
  }
  return a;
}

TEST(ParityLasso, KeysRoundTripAndSort) {
  for (const std::vector<int>& bits :
       {std::vector<int>{0}, std::vector<int>{4093}, std::vector<int>{0, 1, 2, 3, 4}, std::vector<int>{7, 4092}}) {
    EXPECT_EQ(BitsOf(KeyOf(bits)), bits);
  }
  EXPECT_TRUE(KeyBefore(KeyOf({59}), KeyOf({0, 1})));
  EXPECT_TRUE(KeyBefore(KeyOf({0, 5}), KeyOf({1, 2})));
  EXPECT_FALSE(KeyBefore(KeyOf({0, 5}), KeyOf({0, 5})));
}

// Numbers of samples and bits on both sides of whole tiles.
TEST(ParityLasso, StreamedCorrelationsAreThoseOfTheExplicitMatrix) {
  for (const int samples : {1, 7, 8, 9, 37}) {
    for (int bits = 1; bits <= 12; ++bits) {
      for (int degree = 1; degree <= 5; ++degree) {
        SCOPED_TRACE(testing::Message() << samples << " samples, " << bits << " bits, degree " << degree);
        base::RandomStream random(3, "test/streamed");
        const BitMatrix x = RandomBits(random, samples, bits);
        VectorXd y(samples);
        for (double& v : y) v = random.Normal();
        const auto sets = AllSets(bits, degree);
        const VectorXd explicit_c = ExplicitMatrix(x, sets).transpose() * y / samples;
        std::map<std::vector<int>, float> streamed;
        const ParityLasso lasso(x, AllBits(bits), degree);
        EXPECT_TRUE(lasso
                        .Correlations(
                            y,
                            [&](FeatureKey key, float c) {
                              EXPECT_TRUE(streamed.emplace(BitsOf(key), c).second) << "visited twice";
                            },
                            base::StopToken())
                        .ok());
        ASSERT_EQ(streamed.size(), sets.size());
        EXPECT_EQ(lasso.features(), static_cast<int64_t>(sets.size()));
        for (size_t k = 0; k < sets.size(); ++k) {
          EXPECT_NEAR(streamed[sets[k]], explicit_c[static_cast<Eigen::Index>(k)], 1e-6);
        }
      }
    }
  }
}

TEST(ParityLasso, OnlyFreeBitsTakePart) {
  const Data data = MakeData(4, 30, 10, 0.5);
  const std::vector<int> free = {1, 4, 5, 9};
  int count = 0;
  EXPECT_TRUE(ParityLasso(data.x, free, 3)
                  .Correlations(
                      data.y,
                      [&](FeatureKey key, float) {
                        ++count;
                        for (const int bit : BitsOf(key))
                          EXPECT_TRUE(std::find(free.begin(), free.end(), bit) != free.end());
                      },
                      base::StopToken())
                  .ok());
  EXPECT_EQ(count, 4 + 6 + 4);
}

TEST(ParityLasso, EqualsADenseSolver) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Data data = MakeData(seed, 80, 12, 0.5);
    const auto sets = AllSets(12, 3);
    const MatrixXd psi = ExplicitMatrix(data.x, sets);
    for (const double lambda : {0.3, 0.15}) {
      const VectorXd reference = ReferenceLasso(psi, data.y, lambda);
      const LassoFit fit = ParityLasso(data.x, AllBits(12), 3).Fit(data.y, lambda, {}, base::StopToken()).value();
      EXPECT_TRUE(fit.converged);
      std::map<std::vector<int>, double> weights;
      for (const Term& term : fit.terms) weights[term.bits] = term.weight;
      for (size_t k = 0; k < sets.size(); ++k) {
        EXPECT_NEAR(weights[sets[k]], reference[static_cast<Eigen::Index>(k)], 1e-6);
      }
    }
  }
}

TEST(ParityLasso, MeetsTheOptimalityConditions) {
  for (const int samples : {12, 60, 300}) {
    for (const double lambda : {0.05, 0.13, 0.4}) {
      const Data data = MakeData(9, samples, 24, 0.7);
      const ParityLasso lasso(data.x, AllBits(24), 3);
      const LassoFit fit = lasso.Fit(data.y, lambda, {}, base::StopToken()).value();
      ASSERT_TRUE(fit.converged);
      std::map<FeatureKey, double> weights;
      VectorXd residual = data.y;
      for (const Term& term : fit.terms) {
        weights[KeyOf(term.bits)] = term.weight;
        residual -= term.weight * lasso.Column(KeyOf(term.bits)).cast<double>();
      }
      EXPECT_TRUE(lasso
                      .Correlations(
                          residual,
                          [&](FeatureKey key, float c) {
                            const auto found = weights.find(key);
                            if (found == weights.end()) {
                              EXPECT_LE(std::abs(c), lambda * (1.0 + 2e-4) + 1e-6);
                            } else {
                              EXPECT_NEAR(c, lambda * (found->second > 0.0 ? 1.0 : -1.0), 1e-5);
                            }
                          },
                          base::StopToken())
                      .ok());
    }
  }
}

TEST(ParityLasso, AboveTheLargestCorrelationAllWeightsAreZero) {
  const Data data = MakeData(5, 50, 20, 0.5);
  const ParityLasso lasso(data.x, AllBits(20), 2);
  const double largest = lasso.LargestCorrelation(data.y, base::StopToken()).value();
  EXPECT_TRUE(lasso.Fit(data.y, largest * 1.00001, {}, base::StopToken()).value().terms.empty());
  EXPECT_FALSE(lasso.Fit(data.y, largest * 0.999, {}, base::StopToken()).value().terms.empty());
}

TEST(ParityLasso, RenamedBitsGiveRenamedTerms) {
  const Data data = MakeData(6, 90, 18, 0.4);
  std::vector<int> name = AllBits(18);
  base::RandomStream random(8, "test/names");
  random.Shuffle(name);
  BitMatrix renamed(90, 18);
  for (int j = 0; j < 18; ++j) renamed.col(name[static_cast<size_t>(j)]) = data.x.col(j);
  const LassoFit a = ParityLasso(data.x, AllBits(18), 3).Fit(data.y, 0.15, {}, base::StopToken()).value();
  const LassoFit b = ParityLasso(renamed, AllBits(18), 3).Fit(data.y, 0.15, {}, base::StopToken()).value();
  std::map<std::vector<int>, double> weights;
  for (const Term& term : b.terms) weights[term.bits] = term.weight;
  ASSERT_EQ(a.terms.size(), b.terms.size());
  for (const Term& term : a.terms) {
    std::vector<int> bits;
    for (const int bit : term.bits) bits.push_back(name[static_cast<size_t>(bit)]);
    std::sort(bits.begin(), bits.end());
    EXPECT_NEAR(weights[bits], term.weight, 1e-6);
  }
}

TEST(ParityLasso, AStartChangesNothing) {
  const Data data = MakeData(7, 60, 16, 0.4);
  const ParityLasso lasso(data.x, AllBits(16), 3);
  const LassoFit cold = lasso.Fit(data.y, 0.2, {}, base::StopToken()).value();
  const LassoFit warm = lasso.Fit(data.y, 0.2, {KeyOf({3}), KeyOf({0, 9, 11})}, base::StopToken()).value();
  ASSERT_EQ(cold.terms.size(), warm.terms.size());
  for (size_t k = 0; k < cold.terms.size(); ++k) {
    EXPECT_EQ(cold.terms[k].bits, warm.terms[k].bits);
    EXPECT_NEAR(cold.terms[k].weight, warm.terms[k].weight, 1e-7);
  }
}

}  // namespace
}  // namespace luthier::spectral
