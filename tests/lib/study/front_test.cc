#include "lib/study/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/base/random.h"

namespace luthier::study {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Trials(const Front& front) {
  std::vector<int64_t> trials;
  for (const Front::Member& member : front.members()) trials.push_back(member.trial);
  std::sort(trials.begin(), trials.end());
  return trials;
}

TEST(FrontTest, AResultIsOnTheFrontUnlessAnotherIsAtLeastAsGoodInAll) {
  Front front;
  EXPECT_TRUE(front.Add(1, {1, 1}));
  EXPECT_TRUE(front.Add(2, {0, 2}));
  EXPECT_FALSE(front.Add(3, {0, 1}));
  EXPECT_FALSE(front.Add(4, {1, 1})) << "of equal results the first stays";
  EXPECT_TRUE(front.Add(5, {2, 1}));
  EXPECT_THAT(Trials(front), ElementsAre(2, 5));
}

// The oracle compares every pair.
TEST(FrontTest, IsThatOfAllPairsInWhateverOrder) {
  for (const int objectives : {1, 2, 3, 5}) {
    base::RandomStream random(1, "front", static_cast<uint64_t>(objectives));
    std::vector<std::vector<double>> results;
    for (int i = 0; i < 300; ++i) {
      results.emplace_back();
      for (int j = 0; j < objectives; ++j) results.back().push_back(static_cast<double>(random.UniformInt(20)));
    }
    const auto covers = [&](size_t a, size_t b) {
      for (size_t j = 0; j < results[a].size(); ++j) {
        if (results[a][j] < results[b][j]) return false;
      }
      return results[a] != results[b] || a < b;
    };
    std::vector<int64_t> expected;
    for (size_t i = 0; i < results.size(); ++i) {
      bool covered = false;
      for (size_t k = 0; k < results.size(); ++k) covered = covered || (k != i && covers(k, i));
      if (!covered) expected.push_back(static_cast<int64_t>(i));
    }
    Front front;
    for (size_t i = 0; i < results.size(); ++i) front.Add(static_cast<int64_t>(i), results[i]);
    EXPECT_EQ(Trials(front), expected) << objectives;
  }
}

TEST(FrontTest, TooManyMembersAreNotKept) {
  Front front;
  for (size_t i = 0; i <= Front::kMost; ++i) {
    EXPECT_FALSE(front.overflowed());
    EXPECT_TRUE(front.Add(1, {static_cast<double>(i), -static_cast<double>(i)}));
  }
  EXPECT_TRUE(front.overflowed());
  EXPECT_TRUE(front.Add(1, {-1, -1}));
  EXPECT_TRUE(front.members().empty());
}

}  // namespace
}  // namespace luthier::study
