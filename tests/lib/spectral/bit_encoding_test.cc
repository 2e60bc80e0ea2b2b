#include "lib/spectral/bit_encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/lib/study/builders.h"

namespace luthier::spectral {
namespace {

using namespace study;

Bits FromCode(int bits, int begin, int count, int code) {
  Bits x = Bits::Ones(bits);
  for (int j = 0; j < count; ++j) {
    if ((code >> (count - 1 - j)) & 1) x[begin + j] = -1.0f;
  }
  return x;
}

TEST(BitEncoding, EveryLevelIsReachable) {
  for (int k = 2; k <= 33; ++k) {
    const SearchSpace space = Space({Int("i", 0, k - 1), Categorical("c", Labels(k)), Ordinal("o", Labels(k))});
    const BitEncoding encoding(space, 0, 5);
    const int count = static_cast<int>(std::ceil(std::log2(k)));
    ASSERT_EQ(encoding.bits(), 3 * count);
    for (const BitGroup& group : encoding.groups()) {
      std::map<std::string, int> seen;
      double last = -1.0;
      for (int code = 0; code < (1 << count); ++code) {
        base::RandomStream random(1, "test", static_cast<uint64_t>(code));
        const Bits x = FromCode(encoding.bits(), group.begin, count, code);
        EXPECT_EQ(encoding.Code(group, x), code);
        const Parameters values = encoding.Decode(x, random);
        EXPECT_TRUE(space.Validate(values).ok());
        const ParameterValue value = values.at(space.parameters()[static_cast<size_t>(group.parameter)].name);
        ++seen[FormatValue(value)];
        EXPECT_EQ(encoding.LevelOf(group, value), group.level_of_code[static_cast<size_t>(code)]);
        if (group.parameter == 0) {
          EXPECT_GE(std::get<double>(value), last) << "order";
          last = std::get<double>(value);
        }
      }
      EXPECT_EQ(static_cast<int>(seen.size()), k) << "k " << k;
      for (const auto& [label, times] : seen) EXPECT_LE(times, 2) << label;
    }
  }
}

TEST(BitEncoding, CellsCoverContinuousParameters) {
  const SearchSpace space = Space({Float("x", -5, 10), Float("lr", 1e-6, 1, Scale::kLog),
                                   Int("units", 1, 4096, 1, Scale::kLog), Int("many", 0, 1000000), Bool("b")});
  const BitEncoding encoding(space, 0, 0);
  EXPECT_EQ(encoding.bits(), 4 * 2 + 1);
  EXPECT_EQ(BitEncoding(Space({Float("x", 0, 1)}), 0, 0).bits(), 3);
  EXPECT_EQ(BitEncoding(space, 5, 0).bits(), 4 * 5 + 1);
  base::RandomStream random(3, "test/cells");
  for (int i = 0; i < 500; ++i) {
    Bits x(encoding.bits());
    for (float& bit : x) bit = random.Uniform() < 0.5 ? -1.0f : 1.0f;
    const Parameters values = encoding.Decode(x, random);
    ASSERT_TRUE(space.Validate(values).ok());
    for (const BitGroup& group : encoding.groups()) {
      const std::string& name = space.parameters()[static_cast<size_t>(group.parameter)].name;
      const int level = group.level_of_code[static_cast<size_t>(encoding.Code(group, x))];
      // Whole numbers round over the edge of a cell.
      if (name == "units") continue;
      EXPECT_EQ(encoding.LevelOf(group, values.at(name)), level) << name;
    }
  }
}

TEST(BitEncoding, ConstantsHaveNoBitsAndInactiveOnesAreDummies) {
  const SearchSpace space =
      Space({Float("c", 2, 2), Categorical("only", {"x"}), Bool("use"), When("use", {true}, Int("n", 0, 3))});
  const BitEncoding encoding(space, 0, 0);
  EXPECT_EQ(encoding.bits(), 3);
  base::RandomStream random(4, "test/inactive");
  std::set<std::string> seen;
  for (int code = 0; code < 8; ++code) {
    const Parameters values = encoding.Decode(FromCode(3, 0, 3, code), random);
    EXPECT_TRUE(space.Validate(values).ok()) << space.Validate(values);
    seen.insert(FormatParameters(values));
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST(BitEncoding, TheDefaultLabelHasDoubleWeight) {
  ParameterSpec parameter = Categorical("c", Labels(5));
  parameter.default_value = std::string("v3");
  std::set<std::vector<int>> permutations;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const BitEncoding encoding(Space({parameter}), 0, seed);
    const std::vector<int>& levels = encoding.groups()[0].level_of_code;
    EXPECT_EQ(levels[0], 3);
    EXPECT_EQ(levels[5], 3);
    permutations.insert(levels);
  }
  EXPECT_GT(permutations.size(), 1u);
}

TEST(BitEncoding, NamesAndDescriptions) {
  const BitEncoding encoding(Space({Bool("norm"), Float("lr", 1e-4, 1, Scale::kLog),
                                    Categorical("opt", {"sgd", "adam", "lion", "rms"}), Float("x", 0, 8)}),
                             2, 0);
  EXPECT_EQ(encoding.BitName(0), "norm");
  EXPECT_EQ(encoding.BitName(1), "lr:bit1(high half)");
  EXPECT_EQ(encoding.BitName(2), "lr:bit2");
  EXPECT_EQ(encoding.BitName(3), "opt:bit1");
  EXPECT_EQ(encoding.Describe(encoding.groups()[0], 1, 1), "true");
  EXPECT_EQ(encoding.Describe(encoding.groups()[1], 2, 2), "0.01 to 1");
  EXPECT_EQ(encoding.Describe(encoding.groups()[3], 1, 0), "0 to 2 or 4 to 6");
  EXPECT_NE(encoding.Describe(encoding.groups()[2], 2, 0).find(" or "), std::string::npos);
}

}  // namespace
}  // namespace luthier::spectral
