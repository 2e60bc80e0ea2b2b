#include "lib/study/warm_start.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace luthier::study {
namespace {

TEST(WarmStartTest, TheNearestSourceDiffersInStrengthsAlone) {
  const auto at = [](double l2, const std::string& solver) {
    return Parameters{{"l2", l2}, {"l2.a", 1.0}, {"solver", solver}};
  };
  const std::vector<WarmSource> sources = {
      {3, at(1.0, "dual")}, {1, at(0.01, "dual")}, {7, at(0.01, "dual")}, {4, at(0.11, "svrg")}, {9, Parameters{}}};
  EXPECT_EQ(NearestSource(sources, at(0.5, "dual")), 3);
  EXPECT_EQ(NearestSource(sources, at(0.02, "dual")), 7) << "the newest of equally near ones";
  EXPECT_EQ(NearestSource(sources, at(0.01, "svrg")), 4);
  EXPECT_EQ(NearestSource(sources, at(0.01, "lbfgs")), 0);
  EXPECT_EQ(NearestSource(sources, {{"l2", 1.0}}), 0);
  EXPECT_EQ(NearestSource({}, at(0.01, "svrg")), 0);
  EXPECT_EQ(NearestSource(sources, {}), 9);
}

TEST(WarmStartTest, StrengthsOfBothPenaltiesAndOfGroupsCount) {
  const auto at = [](double l1, double group, double noise) {
    return Parameters{{"l1", l1}, {"l1.a", group}, {"l1noise", noise}};
  };
  const std::vector<WarmSource> sources = {{1, at(1.0, 1.0, 0.5)}, {2, at(4.0, 1.0, 0.5)}, {3, at(1.0, 0.0, 0.5)}};
  EXPECT_EQ(NearestSource(sources, at(1.5, 1.0, 0.5)), 1);
  EXPECT_EQ(NearestSource(sources, at(3.0, 1.0, 0.5)), 2);
  EXPECT_EQ(NearestSource(sources, at(3.0, 7.0, 0.5)), 2);
  EXPECT_EQ(NearestSource(sources, at(3.0, 0.0, 0.5)), 3) << "0 is near to itself alone";
  EXPECT_EQ(NearestSource(sources, at(1.0, 1.0, 0.6)), 0) << "not a strength";
}

}  // namespace
}  // namespace luthier::study
