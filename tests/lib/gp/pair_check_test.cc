#include "lib/gp/pair_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

// Points in close pairs, as a search leaves them around its record; cubic, so that the trapezoid rule is not exact.
struct Pairs {
  MatrixXd x;
  VectorXd y;
  Slopes slopes;
};

Pairs SomePairs(int pairs, int d, double apart, uint64_t seed) {
  base::RandomStream stream(seed, "pairs");
  Pairs data{RandomPoints(stream, 2 * pairs, d), VectorXd(2 * pairs), Slopes()};
  for (int p = 0; p < pairs; ++p) {
    data.x.row(2 * p + 1) = data.x.row(2 * p) + apart * RandomNormals(stream, d).normalized().transpose();
  }
  for (Index i = 0; i < 2 * pairs; ++i) {
    VectorXd gradient(d);
    data.y(i) = 0.0;
    for (int j = 0; j < d; ++j) {
      const double u = data.x(i, j) - 0.1 * j;
      data.y(i) += (j + 1.0) * u * u * u - u;
      gradient(j) = 3.0 * (j + 1.0) * u * u - 1.0;
    }
    data.slopes.AddGradient(i, gradient);
  }
  return data;
}

PairCheck CheckOf(const Pairs& data, const Slopes& slopes, double lengthscale = 0.5, double noise = 0.0,
                  double value_error = 1e-15) {
  const int d = static_cast<int>(data.x.cols());
  Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(d, lengthscale);
  theta.noise_variance = noise;
  return CheckPairs(kernels::ArdShape(kernels::Family::kMatern52, d), theta, data.x, data.y, slopes, value_error);
}

TEST(PairCheck, ClosePairsTellFactorOrderAndSign) {
  for (const int d : {1, 2, 5}) {
    for (const uint64_t seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << "d " << d << " seed " << seed);
      const Pairs data = SomePairs(8, d, 0.01, seed);
      const PairCheck right = CheckOf(data, data.slopes);
      EXPECT_GE(right.pairs, 8);
      EXPECT_LT(right.lower_quartile, 1e-3);
      EXPECT_FALSE(right.contradicts);
      for (const double factor : {4.0, 0.25, 10.0, -1.0, 0.0}) {
        Slopes wrong = data.slopes;
        wrong.values *= factor;
        const PairCheck check = CheckOf(data, wrong);
        EXPECT_TRUE(check.contradicts) << factor;
        const double misfit = std::abs(1.0 - factor) / std::max(1.0, std::abs(factor));
        EXPECT_NEAR(check.lower_quartile, misfit, 0.02) << factor;
      }
      if (d == 1) continue;
      Slopes order = data.slopes;
      for (Index i = 0; i < order.size(); i += d) std::reverse(order.values.data() + i, order.values.data() + i + d);
      EXPECT_GT(CheckOf(data, order).lower_quartile, right.lower_quartile + 0.05);
    }
  }
}

TEST(PairCheck, UninformativePairsAreLeftOut) {
  const Pairs data = SomePairs(8, 2, 0.01, 4);
  Slopes wrong = data.slopes;
  wrong.values *= 4.0;
  EXPECT_TRUE(CheckOf(data, wrong).contradicts);
  EXPECT_EQ(CheckOf(data, wrong, 0.05).pairs, 0) << "a fifth of a lengthscale apart";
  EXPECT_EQ(CheckOf(data, wrong, 0.5, 1.0).pairs, 0) << "differences below the noise";
  EXPECT_EQ(CheckOf(data, wrong, 0.5, 0.0, 1.0).pairs, 0) << "values that are not known so well";
  Slopes vague = wrong;
  vague.extra_variances.setConstant(1e4);
  EXPECT_EQ(CheckOf(data, vague).pairs, 0) << "slopes that say how wrong they may be";
  std::vector<Index> first;
  for (Index i = 0; i < wrong.size(); i += 2) first.push_back(i);
  EXPECT_EQ(CheckOf(data, wrong.Select(first)).pairs, 0) << "one component of two";
  std::vector<Index> four;
  for (Index i = 0; i < 16; ++i) four.push_back(i);
  EXPECT_EQ(CheckOf(data, wrong.Select(four)).pairs, 4);
  EXPECT_FALSE(CheckOf(data, wrong.Select(four)).contradicts) << "four pairs are too few";
  EXPECT_EQ(CheckOf(data, Slopes()).pairs, 0);
}

TEST(PairCheck, ObliqueDirectionsAreNotUsed) {
  Pairs data = SomePairs(8, 2, 0.01, 5);
  Slopes along;
  for (Index i = 0; i < 16; ++i) along.Add(i, VectorXd::Constant(2, std::sqrt(0.5)), 100.0);
  EXPECT_EQ(CheckOf(data, along).pairs, 0);
}

// One point of a cluster cannot speak for all: none is in more than two pairs, and no more than ten count.
TEST(PairCheck, EachPointCountsTwiceAtMost) {
  Pairs cluster = SomePairs(15, 2, 0.001, 6);
  EXPECT_EQ(CheckOf(cluster, cluster.slopes).pairs, 10);
  const Pairs three = SomePairs(2, 2, 0.001, 7);
  Pairs close = three;
  close.x.row(2) = close.x.row(0) + 0.002 * Eigen::RowVector2d(1.0, 1.0);
  close.x.row(3) = close.x.row(0) - 0.002 * Eigen::RowVector2d(1.0, 1.0);
  EXPECT_LE(CheckOf(close, close.slopes).pairs, 4);
}

// What a fault makes of the gradient of point i.
using Fault = std::function<void(Index i, VectorXd* gradient)>;

// Points around a few centres, as climbs leave them, reported by three workers in turn; the second's slopes are
// changed.
struct Workers {
  MatrixXd x;
  VectorXd y;
  Slopes slopes[3];

  Slopes But(int who) const {
    Slopes others;
    for (int k = 0; k < 3; ++k) {
      for (Index i = 0; i < slopes[k].size() && k != who; ++i) {
        others.Add(slopes[k].points[static_cast<size_t>(i)], slopes[k].directions.row(i), slopes[k].values(i));
      }
    }
    return others;
  }
};

Workers SomeWorkers(int d, uint64_t seed, const Fault& fault, const Fault& all = nullptr) {
  base::RandomStream stream(seed, "workers");
  const int n = 36;
  Workers data{RandomPoints(stream, n, d), VectorXd(n), {}};
  for (int i = 4; i < n; ++i) {
    const VectorXd way = RandomNormals(stream, d).normalized();
    data.x.row(i) = data.x.row(i % 4) + 0.15 * stream.Uniform() * way.transpose();
  }
  for (Index i = 0; i < n; ++i) {
    VectorXd gradient(d);
    data.y(i) = 0.0;
    for (int j = 0; j < d; ++j) {
      const double u = data.x(i, j) - 0.3 - 0.1 * j;
      data.y(i) += (j + 1.0) * u * u + 0.5 * u * u * u - 0.2 * u;
      gradient(j) = 2.0 * (j + 1.0) * u + 1.5 * u * u - 0.2;
    }
    if (i % 3 == 1 && fault) fault(i, &gradient);
    if (all) all(i, &gradient);
    data.slopes[i % 3].AddGradient(i, gradient);
  }
  return data;
}

PeerCheck PeersOf(const Workers& data, int who, double noise = 0.0) {
  const int d = static_cast<int>(data.x.cols());
  Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(d, 0.5);
  theta.noise_variance = noise;
  return CheckAgainstPeers(kernels::ArdShape(kernels::Family::kMatern52, d), theta, data.x, data.y, data.slopes[who],
                           data.But(who), 1e-15);
}

TEST(PeerCheck, OneWorkerOfThreeWithFewPairsOfItsOwnIsFound) {
  const std::map<std::string, Fault> faults = {
      {"sign", [](Index, VectorXd* g) { *g *= -1.0; }},
      {"factor 4", [](Index, VectorXd* g) { *g *= 4.0; }},
      {"factor 1/4", [](Index, VectorXd* g) { *g *= 0.25; }},
      {"order", [](Index, VectorXd* g) { std::rotate(g->begin(), g->begin() + 1, g->end()); }},
      {"nothing", [](Index, VectorXd* g) { g->setZero(); }},
  };
  for (const int d : {2, 4}) {
    for (const uint64_t seed : {1u, 2u, 3u}) {
      for (const auto& [name, fault] : faults) {
        if (d == 4 && name == "order") continue;  // Four slopes that are much alike hide it in some clusters.
        SCOPED_TRACE(testing::Message() << name << " d " << d << " seed " << seed);
        const Workers data = SomeWorkers(d, seed, fault);
        const PeerCheck check = PeersOf(data, 1);
        EXPECT_TRUE(check.contradicts);
        EXPECT_GE(check.points, 8);
        EXPECT_LE(check.chance, 1e-3);
        // Those who are right do not suffer for it.
        EXPECT_FALSE(PeersOf(data, 0).contradicts);
        EXPECT_FALSE(PeersOf(data, 2).contradicts);
      }
    }
  }
}

TEST(PeerCheck, RightSlopesAndSharedErrorsAreNotFlagged) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(PeersOf(SomeWorkers(3, seed, nullptr), 1).misses, 0);
    base::RandomStream stream(seed, "noise");
    const Fault noisy = [&](Index, VectorXd* g) {
      for (double& v : *g) v *= 1.0 + 0.3 * stream.Normal();
    };
    EXPECT_FALSE(PeersOf(SomeWorkers(3, seed, noisy), 1).contradicts) << "30 % noise of one";
    const Workers wrong = SomeWorkers(3, seed, nullptr, [](Index, VectorXd* g) { *g *= 0.25; });
    for (int who = 0; who < 3; ++who) EXPECT_FALSE(PeersOf(wrong, who).contradicts) << "all wrong: nobody differs";
  }
}

// Of two workers the one whose slopes do not fit its own values is the wrong one.
TEST(PeerCheck, WithTwoReportersTheOneAgainstTheValuesIsFlagged) {
  for (const double factor : {-1.0, 0.25, 4.0}) {
    SCOPED_TRACE(factor);
    Workers data = SomeWorkers(3, 5, [&](Index, VectorXd* g) { *g *= factor; });
    data.slopes[2] = Slopes();
    EXPECT_TRUE(PeersOf(data, 1).contradicts);
    EXPECT_FALSE(PeersOf(data, 0).contradicts);
  }
}

TEST(PeerCheck, UninformativePointsAreLeftOut) {
  const Workers data = SomeWorkers(3, 6, [](Index, VectorXd* g) { *g *= -1.0; });
  EXPECT_GT(PeersOf(data, 1).points, 8);
  EXPECT_EQ(PeersOf(data, 1, 100.0).points, 0) << "differences below the noise";
  Workers alone = data;
  alone.slopes[0] = alone.slopes[2] = Slopes();
  EXPECT_EQ(PeersOf(alone, 1).points, 0);
  Workers along = data;
  for (Index i = 0; i < along.slopes[1].size(); ++i) {
    along.slopes[1].directions.row(i) = Eigen::RowVector3d::Constant(1.0 / std::sqrt(3.0));
  }
  EXPECT_EQ(PeersOf(along, 1).points, 0) << "a direction that is no axis";
}

TEST(HypergeometricTail, IsTheShareOfAllDraws) {
  EXPECT_NEAR(HypergeometricTail(4, 4, 4, 8), 1.0 / 70.0, 1e-15);  // Fisher's lady tasting tea.
  EXPECT_NEAR(HypergeometricTail(3, 4, 4, 8), 17.0 / 70.0, 1e-15);
  EXPECT_NEAR(HypergeometricTail(13, 13, 13, 39), 1.0 / 8122425444.0, 1e-22);
  // Against a count of all subsets.
  for (int all = 1; all <= 9; ++all) {
    for (int all_marked = 0; all_marked <= all; ++all_marked) {
      for (int drawn = 0; drawn <= all; ++drawn) {
        for (int marked = 0; marked <= drawn; ++marked) {
          int hits = 0, draws = 0;
          for (unsigned set = 0; set < (1u << all); ++set) {
            if (__builtin_popcount(set) != drawn) continue;
            ++draws;
            hits += __builtin_popcount(set & ((1u << all_marked) - 1u)) >= marked;
          }
          EXPECT_NEAR(HypergeometricTail(marked, drawn, all_marked, all), static_cast<double>(hits) / draws, 1e-13);
        }
      }
    }
  }
}

}  // namespace
}  // namespace luthier::gp
