#include "lib/pareto/net_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "lib/base/random.h"
#include "lib/pareto/dominance.h"
#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

std::vector<Index> OrderOf(const MatrixXd& points, Index count) {
  return NetOrder(points, count, base::StopToken()).value();
}

// Rank of a row's value in a column among the rows of a layer, by counting.
double Rank(const MatrixXd& points, const std::vector<Index>& layer, Index row, Index column) {
  std::set<double> below, all;
  for (const Index other : layer) {
    all.insert(points(other, column));
    if (points(other, column) < points(row, column)) below.insert(points(other, column));
  }
  return all.size() < 2 ? 0.0 : static_cast<double>(below.size()) / static_cast<double>(all.size() - 1);
}

double Distance(const MatrixXd& points, const std::vector<Index>& layer, Index a, Index b) {
  double sum = 0.0;
  for (Index j = 0; j < points.cols(); ++j) {
    const double apart = Rank(points, layer, a, j) - Rank(points, layer, b, j);
    sum += apart * apart;
  }
  return sum;
}

TEST(NetOrder, IsTheGreedyOneOfTheDefinition) {
  for (const int levels : {0, 4}) {
    for (const Index columns : {2, 3}) {
      base::RandomStream random(static_cast<uint64_t>(levels + columns), "test/net");
      const MatrixXd points = RandomPoints(30, columns, levels, random);
      const std::vector<Index> order = OrderOf(points, 30);
      ASSERT_EQ(std::set(order.begin(), order.end()).size(), 30u);
      std::vector<bool> taken(30, false);
      for (size_t k = 0; k < order.size();) {
        // The layer: rows left that no row left dominates.
        std::vector<Index> layer;
        for (Index i = 0; i < 30; ++i) {
          bool beaten = taken[static_cast<size_t>(i)];
          for (Index other = 0; other < 30 && !beaten; ++other) {
            beaten = !taken[static_cast<size_t>(other)] && Dominates(points, other, i);
          }
          if (!beaten) layer.push_back(i);
        }
        std::vector<Index> chosen;
        for (size_t n = 0; n < layer.size(); ++n, ++k) {
          const Index row = order[k];
          ASSERT_EQ(std::count(layer.begin(), layer.end(), row), 1) << "in the next layer already";
          const auto worth = [&](Index i) {
            if (chosen.empty()) return points(i, 0);
            double nearest = std::numeric_limits<double>::infinity();
            for (const Index other : chosen) nearest = std::min(nearest, Distance(points, layer, i, other));
            return nearest;
          };
          for (const Index other : layer) {
            if (std::count(chosen.begin(), chosen.end(), other) > 0) continue;
            EXPECT_GE(worth(row), worth(other) - 1e-12);
          }
          chosen.push_back(row);
        }
        for (const Index i : layer) taken[static_cast<size_t>(i)] = true;
      }
    }
  }
}

TEST(NetOrder, FewerAreTheBeginning) {
  base::RandomStream random(9, "test/net");
  const MatrixXd points = RandomPoints(40, 2, 0, random);
  const std::vector<Index> all = OrderOf(points, 40);
  for (const Index count : {0, 1, 7, 39, 100}) {
    const auto end = all.begin() + std::min<Index>(count, 40);
    EXPECT_EQ(OrderOf(points, count), std::vector<Index>(all.begin(), end));
  }
  EXPECT_TRUE(OrderOf(MatrixXd(0, 2), 3).empty());
}

TEST(NetOrder, AfterManyOfALayerTheRestComeInOrder) {
  base::RandomStream random(10, "test/net");
  const MatrixXd points = SpherePoints(600, 3, random);
  const std::vector<Index> order = OrderOf(points, 600);
  ASSERT_EQ(order.size(), 600u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.begin() + kMostNetPoints));
  EXPECT_TRUE(std::is_sorted(order.begin() + kMostNetPoints, order.end()));
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), 600u);
}

TEST(NetOrder, EqualPointsComeInOrder) {
  EXPECT_EQ(OrderOf(MatrixXd::Constant(4, 2, 1.0), 4), (std::vector<Index>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace luthier::pareto
