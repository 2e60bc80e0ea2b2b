#include "lib/spectral/minimizers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/lib/spectral/testing.h"

namespace luthier::spectral {
namespace {

TEST(Minimizers, AreThoseOfBruteForceOverAllSettings) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/minimizers");
    constexpr int kBits = 12;
    const Polynomial g = RandomPolynomial(random, kBits, 6, 3);
    const std::vector<int> variables = Variables(g);
    std::vector<std::pair<double, uint32_t>> brute;  // Over all bits; the code of the variables.
    for (uint32_t all = 0; all < (1u << kBits); ++all) {
      Bits x(kBits);
      for (int j = 0; j < kBits; ++j) x[j] = (all >> j) & 1 ? -1.0f : 1.0f;
      uint32_t code = 0;
      for (size_t k = 0; k < variables.size(); ++k) code |= ((all >> variables[k]) & 1) << k;
      brute.emplace_back(Evaluate(g, x), code);
    }
    std::sort(brute.begin(), brute.end());
    brute.erase(
        std::unique(brute.begin(), brute.end(), [](const auto& a, const auto& b) { return a.second == b.second; }),
        brute.end());
    const std::vector<Assignment> best = Minimizers(g, 7, base::StopToken()).value();
    ASSERT_EQ(best.size(), 7u);
    for (size_t k = 0; k < best.size(); ++k) {
      EXPECT_NEAR(best[k].value, brute[k].first, 1e-12);
      EXPECT_EQ(best[k].code, brute[k].second);
    }
  }
}

TEST(Minimizers, EqualValuesComeByCode) {
  const Polynomial product{0.5, {{{3, 8}, 2.0}}};
  const std::vector<Assignment> best = Minimizers(product, 10, base::StopToken()).value();
  ASSERT_EQ(best.size(), 4u);
  EXPECT_EQ(best[0], (Assignment{1, -1.5}));
  EXPECT_EQ(best[1], (Assignment{2, -1.5}));
  EXPECT_EQ(best[2], (Assignment{0, 2.5}));
  EXPECT_EQ(best[3], (Assignment{3, 2.5}));
}

TEST(Minimizers, TooManyVariablesLoseTheLeastTerms) {
  Polynomial g;
  for (int k = 0; k < 9; ++k) g.terms.push_back({{3 * k, 3 * k + 1, 3 * k + 2}, 10.0 - k});
  EXPECT_EQ(LimitVariables(&g), 3);
  EXPECT_EQ(Variables(g).size(), 18u);
  EXPECT_EQ(g.terms.back().weight, 5.0);
  EXPECT_EQ(Minimizers(g, 1, base::StopToken()).value().front().value, -45.0);
}

TEST(Minimizers, AConstantHasOne) {
  EXPECT_EQ(Minimizers(Polynomial{3.0, {}}, 4, base::StopToken()).value(), (std::vector<Assignment>{{0, 3.0}}));
}

}  // namespace
}  // namespace luthier::spectral
