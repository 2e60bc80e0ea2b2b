#include "lib/search/nsga2/variation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using study::Parameters;

constexpr int kDraws = 20'000;

// Far from the ends of the range, the two children are symmetric around the parents' mean, and the density of their
// distance as a multiple beta of the parents' is (eta+1)/2 beta^eta below 1 and (eta+1)/2 beta^-(eta+2) above.
TEST(SimulatedBinaryChild, HasTheSpreadOfTheFormula) {
  base::RandomStream random(1, "test/sbx");
  double sum = 0.0;
  std::map<double, int> below;
  for (int i = 0; i < kDraws; ++i) {
    const double child = SimulatedBinaryChild(0.5, 0.5 + 1e-3, &random);
    sum += child - (0.5 + 0.5e-3);
    const double beta = std::abs(child - (0.5 + 0.5e-3)) / 0.5e-3;
    for (const double limit : {0.9, 1.0, 1.05, 1.2}) below[limit] += beta <= limit ? 1 : 0;
  }
  const double error = 4.0 * 0.5 / std::sqrt(kDraws);
  EXPECT_NEAR(sum / kDraws / 0.5e-3, 0.0, 4.0 * 1.1 / std::sqrt(kDraws));
  EXPECT_NEAR(below[0.9] / double{kDraws}, 0.5 * std::pow(0.9, 21), error);
  EXPECT_NEAR(below[1.0] / double{kDraws}, 0.5, error);
  EXPECT_NEAR(below[1.05] / double{kDraws}, 1.0 - 0.5 * std::pow(1.05, -21), error);
  EXPECT_NEAR(below[1.2] / double{kDraws}, 1.0 - 0.5 * std::pow(1.2, -21), error);
}

TEST(SimulatedBinaryChild, StaysInsideAndKeepsEqualParents) {
  base::RandomStream random(2, "test/sbx");
  for (int i = 0; i < kDraws; ++i) {
    const double child = SimulatedBinaryChild(0.0, random.Uniform(), &random);
    ASSERT_GE(child, 0.0);
    ASSERT_LE(child, 1.0);
  }
  EXPECT_EQ(SimulatedBinaryChild(0.3, 0.3, &random), 0.3);
}

// Far from the ends the step has density (eta+1)/2 (1-|step|)^eta; near an end both signs stay equally likely.
TEST(PolynomialMutation, HasTheStepsOfTheFormula) {
  base::RandomStream random(1, "test/mutation");
  int small = 0, up = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double step = PolynomialMutation(0.5, &random) - 0.5;
    small += std::abs(step) <= 0.02 ? 1 : 0;
    const double moved = PolynomialMutation(0.01, &random);
    ASSERT_GE(moved, 0.0);
    ASSERT_LE(moved, 1.0);
    up += moved > 0.01 ? 1 : 0;
  }
  // The bound cuts off the share (1/2)^21, which is nothing.
  EXPECT_NEAR(small / double{kDraws}, 1.0 - std::pow(0.98, 21), 4.0 * 0.5 / std::sqrt(kDraws));
  EXPECT_NEAR(up / double{kDraws}, 0.5, 4.0 * 0.5 / std::sqrt(kDraws));
}

TEST(Nsga2Variation, ChildrenAreValidAndMixTheirParents) {
  const study::SearchSpace space =
      Space({study::Float("lr", 1e-5, 1, study::Scale::kLog), study::Int("layers", 1, 4),
             study::Categorical("optimizer", {"sgd", "adam", "lion"}),
             study::When("optimizer", {"sgd"}, study::Bool("nesterov")),
             study::When("nesterov", {true}, study::Int("delay", 0, 3)), study::Float("fixed", 2, 2),
             study::Int("units", 1, 1024, 1, study::Scale::kLog)});
  const study::Encoding encoding(space);
  const Nsga2Variation variation(encoding);
  base::RandomStream random(1, "test/variation");
  std::map<std::string, int> optimizers;
  int differ = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Parameters a = encoding.Sample(random), b = encoding.Sample(random);
    const Parameters child = variation.Child(a, b, &random);
    ASSERT_TRUE(space.Validate(child).ok()) << study::FormatParameters(child);
    ++optimizers[std::get<std::string>(child.at("optimizer"))];
    differ += child != a && child != b ? 1 : 0;
  }
  EXPECT_GT(differ, 1'500);
  for (const auto& [optimizer, count] : optimizers) EXPECT_NEAR(count, 2'000 / 3.0, 150) << optimizer;
}

TEST(Nsga2Variation, AChildOfEqualParentsHasOneMutationOnAverage) {
  const study::SearchSpace space =
      Space({study::Int("a", 0, 9), study::Int("b", 0, 1'000'000), study::Categorical("c", {"x", "y", "z"}),
             study::Bool("d"), study::Float("e", 0, 1)});
  const study::Encoding encoding(space);
  const Nsga2Variation variation(encoding);
  base::RandomStream random(3, "test/variation");
  const Parameters parent = {{"a", 0.0}, {"b", 1e6}, {"c", std::string("y")}, {"d", true}, {"e", 0.5}};
  std::map<std::string, int> changes;
  for (int i = 0; i < kDraws; ++i) {
    for (const auto& [name, value] : variation.Child(parent, parent, &random))
      changes[name] += value != parent.at(name) ? 1 : 0;
  }
  // Every mutation changes the value, levels at the ends of their ranges included.
  for (const char* name : {"a", "c", "d", "e"}) EXPECT_NEAR(changes[name] / double{kDraws}, 0.2, 0.012) << name;
  EXPECT_NEAR(changes["b"] / double{kDraws}, 0.2, 0.012);
}

}  // namespace
}  // namespace luthier::search
