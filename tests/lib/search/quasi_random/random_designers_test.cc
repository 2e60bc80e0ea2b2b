#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/quasi_random/halton_designer.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/search/quasi_random/sobol_designer.h"
#include "lib/search/registry.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using namespace study;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StudySpec Study(SearchSpace space, AlgorithmSpec algorithm, uint64_t seed = 0) {
  StudySpec spec;
  spec.space = std::move(space);
  spec.metric.name = "loss";
  spec.algorithm = algorithm;
  spec.seed = seed;
  return spec;
}

std::vector<double> FirstOf(const StudySpec& spec, const std::string& name, uint64_t count) {
  const auto designer = CreateDesigner(spec);
  std::vector<double> values;
  for (uint64_t ask = 0; ask < count; ++ask) {
    values.push_back(std::get<double>(designer->Suggest(History(), ask, base::StopToken())->parameters.at(name)));
  }
  return values;
}

// The contract that other algorithms' exploration is tested against.
TEST(RandomDesignerTest, AskIIsTheSampleOfTheExplorationStreamI) {
  const SearchSpace space = Space({Float("x", 0, 1), Categorical("c", {"a", "b"}), When("c", {"a"}, Int("n", 0, 9))});
  const Encoding encoding(space);
  const auto designer = CreateDesigner(Study(space, RandomOptions(), 9));
  for (const uint64_t ask : {uint64_t{0}, uint64_t{1}, uint64_t{17}, uint64_t{1} << 40}) {
    base::RandomStream stream(9, "explore", ask, 0);
    const Suggestion s = designer->Suggest(History(), ask, base::StopToken()).value();
    EXPECT_EQ(s.parameters, encoding.Sample(stream));
    EXPECT_EQ(s.parameters, ExplorationPoint(encoding, 9, ask));
    EXPECT_EQ(s.origin, "random");
  }
}

TEST(RandomDesignerTest, FillsTheRangeEvenly) {
  const std::vector<double> x = FirstOf(Study(Space({Float("x", 0, 10)}), RandomOptions()), "x", 10'000);
  std::vector<int> bins(10);
  for (const double v : x) ++bins[static_cast<size_t>(v)];
  double chi2 = 0.0;
  for (const int count : bins) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi2, 33.8);  // 9 degrees of freedom, p > 1e-4.
}

TEST(RandomDesignerTest, RepeatsInASmallSpaceForEver) {
  const auto designer = CreateDesigner(Study(Space({Bool("b")}), RandomOptions()));
  for (uint64_t ask = 0; ask < 20; ++ask) EXPECT_TRUE(designer->Suggest(History(), ask, base::StopToken()).ok());
}

TEST(SobolDesignerTest, ThePlainSequenceIsTheKnownOneWithoutItsCorner) {
  EXPECT_THAT(FirstOf(Study(Space({Float("x", 0, 16)}), SobolOptions{false}), "x", 7),
              ElementsAre(8, 12, 4, 6, 14, 10, 2));
}

// Of the first 2^m points of a scrambled sequence each 2^m-th of every parameter holds exactly one.
TEST(SobolDesignerTest, ScrambledPointsAreStratified) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const SearchSpace space = Space({Float("x", 0, 64), Float("y", 0, 64), Float("z", 0, 64)});
    for (const char* name : {"x", "y", "z"}) {
      std::set<int> cells;
      for (const double v : FirstOf(Study(space, SobolOptions(), seed), name, 64)) cells.insert(static_cast<int>(v));
      EXPECT_EQ(cells.size(), 64u) << name << " seed " << seed;
    }
  }
}

TEST(HaltonDesignerTest, ThePlainSequenceIsTheKnownOneWithoutItsCorner) {
  EXPECT_THAT(FirstOf(Study(Space({Float("x", 0, 16)}), HaltonOptions{false}), "x", 7),
              ElementsAre(8, 4, 12, 2, 10, 6, 14));
}

TEST(HaltonDesignerTest, AskIIsPointIOfTheScrambledSequence) {
  const SearchSpace space = Space({Float("x", 0, 1), Int("n", 0, 9), Categorical("c", Labels(4))});
  const auto designer = CreateDesigner(Study(space, HaltonOptions(), 3));
  const math::HaltonSequence sequence(3, 3, "halton");
  for (const uint64_t ask : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40, std::numeric_limits<uint64_t>::max()}) {
    const Suggestion s = designer->Suggest(History(), ask, base::StopToken()).value();
    EXPECT_EQ(s.parameters, Encoding(space).FromCompact(sequence.Point(ask)));
    EXPECT_EQ(s.origin, "halton");
  }
}

TEST(SobolDesignerTest, LevelsComeEquallyOften) {
  const auto designer =
      CreateDesigner(Study(Space({Categorical("c", Labels(4)), Float("x", 0, 1)}), SobolOptions(), 3));
  std::map<std::string, int> counts;
  for (uint64_t ask = 0; ask < 64; ++ask)
    ++counts[FormatValue(designer->Suggest(History(), ask, base::StopToken())->parameters.at("c"))];
  for (const auto& [label, count] : counts) EXPECT_EQ(count, 16) << label;
}

TEST(SobolDesignerTest, AnyAskIndexHasAnAnswer) {
  const SearchSpace space = Space({Float("x", 0, 1), Int("n", 0, 9)});
  for (const bool scramble : {true, false}) {
    const auto designer = CreateDesigner(Study(space, SobolOptions{scramble}));
    for (const uint64_t ask :
         {(uint64_t{1} << 32) - 2, (uint64_t{1} << 32) - 1, uint64_t{1} << 32, std::numeric_limits<uint64_t>::max()}) {
      const Suggestion s = designer->Suggest(History(), ask, base::StopToken()).value();
      EXPECT_TRUE(space.Validate(s.parameters).ok());
    }
  }
}

TEST(SobolDesignerTest, AThousandParametersWork) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < kMaxParameters; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  const SearchSpace space = Space(parameters);
  const auto designer = CreateDesigner(Study(space, SobolOptions()));
  const Suggestion s = designer->Suggest(History(), 5, base::StopToken()).value();
  EXPECT_TRUE(space.Validate(s.parameters).ok());
  std::set<double> distinct;
  for (const auto& [name, value] : s.parameters) distinct.insert(std::get<double>(value));
  EXPECT_GT(distinct.size(), 900u);
}

TEST(ConstantSpaceTest, EveryAskIsTheOnePoint) {
  const SearchSpace space = Space({Float("x", 2, 2), Categorical("c", {"a"})});
  for (const AlgorithmSpec& algorithm :
       {AlgorithmSpec(RandomOptions()), AlgorithmSpec(SobolOptions()), AlgorithmSpec(HaltonOptions())}) {
    const auto designer = CreateDesigner(Study(space, algorithm));
    for (uint64_t ask = 0; ask < 3; ++ask) {
      EXPECT_EQ(designer->Suggest(History(), ask, base::StopToken())->parameters, (Parameters{{"x", 2.0}, {"c", "a"}}));
    }
  }
}

TEST(RegistryTest, ListsEveryAlgorithmOnceInOrderOfName) {
  std::vector<std::string> names;
  for (const AlgorithmInfo& info : Algorithms()) {
    names.push_back(info.name);
    EXPECT_GE(info.version, 1);
    EXPECT_FALSE(info.description.empty());
    EXPECT_EQ(info.description.find('\n'), std::string::npos);
  }
  EXPECT_THAT(names, ElementsAre("asha", "auto", "bo", "cma_es", "fobo", "grid", "halton", "harmonica", "hbo", "hoag",
                                 "hyperband", "iterdiff", "lbo", "nsga2", "projected_gradient", "random", "sobol",
                                 "successive_halving", "tpe"));
  EXPECT_EQ(InfoOf(BoOptions()).name, "bo");
  EXPECT_EQ(InfoOf(GridOptions()).name, "grid");
  EXPECT_EQ(InfoOf(RandomOptions()).name, "random");
  EXPECT_EQ(InfoOf(SobolOptions()).name, "sobol");
  EXPECT_EQ(InfoOf(TpeOptions()).name, "tpe");
}

TEST(RegistryTest, OptionsAreValidated) {
  const SearchSpace space = Space({Float("x", 0, 1)});
  const auto error = [&](const AlgorithmSpec& algorithm) {
    return std::string(Validate(Study(space, algorithm)).message());
  };
  EXPECT_EQ(error(BoOptions()), "");
  EXPECT_EQ(error(BoOptions{.initial_points = 10'000, .acquisition = BoAcquisition::kEi, .noisy = true}), "");
  EXPECT_THAT(error(BoOptions{.initial_points = -1, .acquisition = BoAcquisition::kEi, .noisy = true}),
              HasSubstr("algorithm.bo.initial_points"));
  EXPECT_THAT(error(BoOptions{.initial_points = 10'001, .acquisition = BoAcquisition::kEi, .noisy = true}),
              HasSubstr("algorithm.bo.initial_points"));
  EXPECT_THAT(error(GridOptions{1, true}), HasSubstr("algorithm.grid.levels"));
  EXPECT_EQ(error(RandomOptions()), "");
  EXPECT_EQ(error(SobolOptions()), "");
}

}  // namespace
}  // namespace luthier::search
