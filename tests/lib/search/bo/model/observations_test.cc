#include "lib/search/bo/model/observations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lib/base/random.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAreArray;

// Observation i has number i + 1.
Observations Made(Index n, uint64_t seed) {
  base::RandomStream random(seed, "observations_test");
  Observations data;
  data.observed.resize(n, 2);
  data.scores.resize(n);
  for (Index i = 0; i < n; ++i) {
    data.observed.row(i) << random.Uniform(), random.Uniform();
    data.scores(i) = random.Normal();
    data.number.push_back(i + 1);
    data.complete.push_back(i % 3 != 0);
  }
  return data;
}

TEST(Thin, TakesTheNewestTheBestAndTheNearestByLengthscales) {
  const Index n = 3000;
  const VectorXd lengthscales = (VectorXd(2) << 0.01, 10.0).finished();  // The second coordinate hardly counts.
  for (const uint64_t seed : {1, 2, 3}) {
    const Observations data = Made(n, seed);
    Index best = 0;
    data.scores.maxCoeff(&best);
    const Observations thin = Thin(data, kThinPartsNearby, seed, 7, nullptr, lengthscales);
    ASSERT_EQ(thin.scores.size(), kThinPartsNearby.rows());
    EXPECT_TRUE(std::is_sorted(thin.number.begin(), thin.number.end()));
    const std::set<int64_t> kept(thin.number.begin(), thin.number.end());
    EXPECT_EQ(kept.size(), thin.number.size());
    for (Index k = 0; k < thin.scores.size(); ++k) {
      const Index i = thin.number[static_cast<size_t>(k)] - 1;
      EXPECT_EQ(thin.scores(k), data.scores(i));
      EXPECT_EQ(thin.observed.row(k), data.observed.row(i));
      EXPECT_EQ(thin.complete[static_cast<size_t>(k)], data.complete[static_cast<size_t>(i)]);
    }
    // By brute force: each kind among those that the kinds before left.
    std::set<int64_t> left, expected;
    for (Index i = 0; i < n; ++i) (i < n - kThinPartsNearby.newest ? left : expected).insert(i + 1);
    const auto move_least = [&](Index count, auto key) {
      for (Index k = 0; k < count; ++k) {
        const auto least = std::min_element(left.begin(), left.end(), [&](auto a, auto b) { return key(a) < key(b); });
        expected.insert(*least);
        left.erase(least);
      }
    };
    move_least(kThinPartsNearby.best, [&](int64_t number) { return -data.scores(number - 1); });
    move_least(kThinPartsNearby.nearest, [&](int64_t number) {
      return (data.observed.row(number - 1) - data.observed.row(best))
          .cwiseQuotient(lengthscales.transpose())
          .squaredNorm();
    });
    EXPECT_THAT(kept, IsSupersetOf(expected));
    EXPECT_EQ(kept.size() - expected.size(), static_cast<size_t>(kThinPartsNearby.random));
  }
}

TEST(Thin, TheCentreKeepsTheBounds) {
  Observations data = Made(1000, 4);
  data.violations = VectorXd::Ones(1000);
  data.violations(17) = 0.0;
  data.scores(17) = -100.0;
  const VectorXd ones = VectorXd::Ones(2);
  const ThinParts nearest_alone = {.newest = 0, .best = 0, .nearest = 1, .random = 0};
  EXPECT_THAT(Thin(data, nearest_alone, 1, 1, nullptr, ones).number, UnorderedElementsAreArray({18}));
}

TEST(Thin, FewObservationsAllCount) {
  const Observations data = Made(kThinPartsNearby.rows(), 5);
  EXPECT_EQ(Thin(data, kThinPartsNearby, 1, 1, nullptr, VectorXd::Ones(2)).number, data.number);
}

}  // namespace
}  // namespace luthier::search
