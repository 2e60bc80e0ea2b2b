#include "lib/search/grid/grid_designer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/search/registry.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using namespace study;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Parameters> AllPoints(const Grid& grid) {
  std::vector<Parameters> points;
  for (int64_t i = 0; i < grid.size().value(); ++i) points.push_back(grid.Point(i));
  return points;
}

std::vector<double> Numbers(const std::vector<Parameters>& points, const std::string& name) {
  std::vector<double> numbers;
  for (const Parameters& p : points) numbers.push_back(std::get<double>(p.at(name)));
  return numbers;
}

// Every combination of the points of the parameters, inactive ones removed: the long way round.
std::set<std::string> BruteForce(const Encoding& encoding, int levels) {
  const SearchSpace& space = encoding.space();
  std::vector<std::vector<ParameterValue>> values(static_cast<size_t>(space.size()));
  for (int i = 0; i < space.size(); ++i) {
    if (const std::optional<int64_t> count = space.Levels(i)) {
      for (int64_t level = 0; level < *count; ++level) values[i].push_back(space.LevelValue(i, level));
    }
  }
  for (int i = 0; i < space.size(); ++i) {
    const ParameterSpec& p = space.parameters()[i];
    if (space.Levels(i) || !p.is_vector()) continue;
    std::vector<std::vector<double>> vectors = {{}};  // By one more element at a time.
    for (int element = 0; element < p.width(); ++element) {
      std::vector<std::vector<double>> longer;
      for (const std::vector<double>& vector : vectors) {
        for (int k = 0; k < levels; ++k) {
          longer.push_back(vector);
          longer.back().push_back(std::get<double>(
              encoding.DecodeCoordinate(encoding.coordinate_of(i) + element, double{1.0} * k / (levels - 1))));
        }
      }
      vectors = std::move(longer);
    }
    values[static_cast<size_t>(i)].assign(vectors.begin(), vectors.end());
  }
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    if (encoding.Levels(c) || space.parameters()[encoding.compact_parameter(c)].is_vector()) continue;
    for (int k = 0; k < levels; ++k) {
      values[encoding.compact_parameter(c)].push_back(encoding.DecodeCoordinate(c, double{1.0} * k / (levels - 1)));
    }
  }
  std::set<std::string> settings;
  std::vector<size_t> digits(values.size(), 0);
  while (true) {
    Parameters active;
    for (const int i : space.topological_order()) {
      if (space.IsActive(i, active)) active[space.parameters()[i].name] = values[i][digits[i]];
    }
    settings.insert(FormatParameters(active));
    size_t i = 0;
    while (i < digits.size() && ++digits[i] == values[i].size()) digits[i++] = 0;
    if (i == digits.size()) return settings;
  }
}

TEST(GridTest, ContinuousParametersHaveEquallySpacedPointsWithBothEnds) {
  const auto points = [](ParameterSpec p, int levels) {
    return Numbers(AllPoints(Grid(Encoding(Space({std::move(p)})), levels)), "x");
  };
  EXPECT_THAT(points(Float("x", -2, 2), 5), ElementsAre(-2, -1, 0, 1, 2));
  EXPECT_THAT(points(Float("x", 3, 7), 2), ElementsAre(3, 7));
  const std::vector<double> log = points(Float("x", 1e-2, 1e2, Scale::kLog), 5);
  for (int k = 0; k < 5; ++k) EXPECT_NEAR(log[k], std::pow(10.0, k - 2), 1e-13 * std::pow(10.0, k - 2));
}

TEST(GridTest, CentresAreTheMiddlesOfEqualCells) {
  EXPECT_THAT(Numbers(AllPoints(Grid(Encoding(Space({Float("x", 0, 8)})), 4, true)), "x"), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(Numbers(AllPoints(Grid(Encoding(Space({Int("x", 3, 5)})), 4, true)), "x"), ElementsAre(3, 4, 5));
}

TEST(GridTest, OtherParametersHaveAllTheirValues) {
  EXPECT_THAT(Numbers(AllPoints(Grid(Encoding(Space({Int("x", 3, 12, 3)})), 2)), "x"), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(Numbers(AllPoints(Grid(Encoding(Space({Float("x", 0, 1, Scale::kLinear, 0.4)})), 2)), "x"),
              ElementsAre(0, 0.4, 0.8));
  EXPECT_THAT(
      Numbers(
          AllPoints(Grid(Encoding(Space({Int("x", 1'000'000'000'000'000, 1'000'000'000'000'003, 1, Scale::kLog)})), 2)),
          "x"),
      ElementsAre(1e15, 1e15 + 1, 1e15 + 2, 1e15 + 3));
}

TEST(GridTest, TheLastParameterVariesFastest) {
  const Grid grid(Encoding(Space({Int("a", 0, 1), Categorical("b", {"x", "y"}), Bool("c")})), 2);
  std::vector<std::string> order;
  for (const Parameters& p : AllPoints(grid)) order.push_back(FormatParameters(p));
  EXPECT_THAT(order, ElementsAre("a=0, b=x, c=false", "a=0, b=x, c=true", "a=0, b=y, c=false", "a=0, b=y, c=true",
                                 "a=1, b=x, c=false", "a=1, b=x, c=true", "a=1, b=y, c=false", "a=1, b=y, c=true"));
}

TEST(GridTest, InactiveParametersMakeNoExtraPoints) {
  const Grid grid(Encoding(Space({Categorical("kind", {"a", "b", "c"}), When("kind", {"b"}, Float("x", 0, 1)),
                                  When("kind", {"b", "c"}, Int("n", 1, 4)), When("n", {4.0}, Bool("deep"))})),
                  10);
  // a: 1. b: 10 x (3 + 2). c: 3 + 2.
  EXPECT_EQ(grid.size(), 56);
}

TEST(GridTest, AgreesWithBruteForceOnRandomSpaces) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/space");
    const Encoding encoding(RandomSpace(random));
    double cells = 1.0;
    for (int i = 0; i < encoding.space().size(); ++i)
      cells *= std::pow(static_cast<double>(encoding.space().Levels(i).value_or(3)),
                        encoding.space().IsConstant(i) ? 1 : encoding.space().parameters()[i].width());
    if (cells > 20'000) continue;
    ++compared;
    const Grid grid(encoding, 3);
    const std::set<std::string> expected = BruteForce(encoding, 3);
    ASSERT_EQ(grid.size(), static_cast<int64_t>(expected.size()));
    std::set<std::string> found;
    for (const Parameters& p : AllPoints(grid)) {
      ASSERT_EQ(encoding.space().Canonical(p).value(), p);
      found.insert(FormatParameters(p));
    }
    ASSERT_EQ(found, expected);
  }
  EXPECT_GT(compared, 100);
}

TEST(GridTest, SizesBeyondSixtyThreeBitsAreNoSizes) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < 62; ++i) parameters.push_back(Bool(absl::StrCat("b", i)));
  EXPECT_EQ(Grid(Encoding(Space(parameters)), 2).size(), int64_t{1} << 62);
  parameters.push_back(Bool("one_more"));
  EXPECT_EQ(Grid(Encoding(Space(parameters)), 2).size(), std::nullopt);
}

TEST(ShuffleTest, IsAPermutationOfEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    const Shuffle shuffle(size, 3);
    std::vector<int64_t> image;
    for (int64_t i = 0; i < size; ++i) image.push_back(shuffle(i));
    std::sort(image.begin(), image.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(image[i], i) << "size " << size;
  }
  const Shuffle shuffle(100'003, 4);
  std::vector<bool> seen(100'003);
  for (int64_t i = 0; i < 100'003; ++i) {
    const int64_t k = shuffle(i);
    ASSERT_FALSE(seen[k]);
    seen[k] = true;
  }
}

TEST(ShuffleTest, DependsOnTheSeed) {
  const Shuffle a(1000, 1), b(1000, 1), c(1000, 2);
  int same = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a(i), b(i));
    same += a(i) == c(i);
  }
  EXPECT_LT(same, 20);
}

// The first tenth of a shuffled run must already have covered the grid: chi-squared over ten bins of the index.
TEST(ShuffleTest, ItsBeginningCoversTheWholeRange) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int64_t size = 100'000;
    const Shuffle shuffle(size, seed);
    std::vector<int> bins(10);
    for (int64_t i = 0; i < size / 10; ++i) ++bins[static_cast<size_t>(shuffle(i) * 10 / size)];
    double chi2 = 0.0;
    for (const int count : bins) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
    EXPECT_LT(chi2, 40.0) << "seed " << seed;  // 9 degrees of freedom, p > 1e-5.
  }
}

StudySpec GridStudy(SearchSpace space, GridOptions options) {
  StudySpec spec;
  spec.space = std::move(space);
  spec.metric.name = "loss";
  spec.algorithm = options;
  return spec;
}

// Eight workers, a new designer for every ask: each point comes exactly once, then the space is exhausted for good.
TEST(GridDesignerTest, EveryPointComesOnceWhoeverAsks) {
  for (const bool shuffle : {false, true}) {
    const StudySpec spec = GridStudy(
        Space({Float("x", 0, 1), Categorical("c", {"u", "v"}), When("c", {"v"}, Int("n", 1, 5))}), {4, shuffle});
    std::set<std::string> seen;
    std::set<double> indices;
    for (uint64_t ask = 0; ask < 24; ++ask) {
      const Suggestion s = CreateDesigner(spec)->Suggest(History(), ask, base::StopToken()).value();
      EXPECT_TRUE(seen.insert(FormatParameters(s.parameters)).second) << FormatParameters(s.parameters);
      indices.insert(s.details.at("grid_index"));
      EXPECT_EQ(s.details.at("grid_size"), 24.0);
      EXPECT_EQ(s.origin, "grid");
    }
    EXPECT_EQ(indices.size(), 24u);
    for (const uint64_t ask : {uint64_t{24}, uint64_t{25}, std::numeric_limits<uint64_t>::max()}) {
      const absl::Status status = CreateDesigner(spec)->Suggest(History(), ask, base::StopToken()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_EQ(base::GetReason(status), base::reason::kSpaceExhausted);
      EXPECT_THAT(std::string(status.message()), HasSubstr("all 24 points"));
    }
  }
}

TEST(GridDesignerTest, CentresReachTheDesigner) {
  const auto designer = CreateDesigner(GridStudy(Space({Float("x", 0, 4)}), {2, false, true}));
  EXPECT_EQ(designer->Suggest(History(), 0, base::StopToken())->parameters, (Parameters{{"x", 1.0}}));
  EXPECT_EQ(designer->Suggest(History(), 1, base::StopToken())->parameters, (Parameters{{"x", 3.0}}));
}

TEST(GridDesignerTest, AConstantSpaceHasOnePoint) {
  const auto designer = CreateDesigner(GridStudy(Space({Float("x", 2, 2), Categorical("c", {"a"})}), {}));
  EXPECT_EQ(designer->Suggest(History(), 0, base::StopToken())->parameters, (Parameters{{"x", 2.0}, {"c", "a"}}));
  EXPECT_FALSE(designer->Suggest(History(), 1, base::StopToken()).ok());
}

std::string ValidationError(SearchSpace space, GridOptions options) {
  return std::string(Validate(GridStudy(std::move(space), options)).message());
}

TEST(GridValidationTest, LevelsHaveARange) {
  const SearchSpace space = Space({Float("x", 0, 1)});
  EXPECT_EQ(ValidationError(space, {2, true}), "");
  EXPECT_EQ(ValidationError(space, {1'000'000, true}), "");
  for (const int levels : {1, 0, -5, 1'000'001, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    EXPECT_THAT(ValidationError(space, {levels, true}), HasSubstr("algorithm.grid.levels: ")) << levels;
  }
}

TEST(GridValidationTest, TenMillionPointsAreTheLimit) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < 7; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  EXPECT_EQ(ValidationError(Space(parameters), {}), "");
  parameters.push_back(Bool("b"));
  EXPECT_THAT(ValidationError(Space(parameters), {}),
              AllOf(HasSubstr("20000000 points"), HasSubstr("at most 10000000")));
}

TEST(GridValidationTest, ABillionPointsAreRefused) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < 9; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  EXPECT_THAT(ValidationError(Space(parameters), {}), HasSubstr("the grid has 1000000000 points"));
}

TEST(GridValidationTest, TheErrorNamesTheWidestParameter) {
  EXPECT_THAT(ValidationError(Space({Int("small", 1, 3), Int("wide", 1, int64_t{1} << 50), Float("x", 0, 1)}), {}),
              HasSubstr("\"wide\" alone has 1125899906842624"));
}

// A thousand parameters must not be multiplied out, nor a thousand levels of each be listed, to find that they are
// many.
TEST(GridValidationTest, HugeGridsAreRefusedAtOnce) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < kMaxParameters; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  EXPECT_THAT(ValidationError(Space(parameters), {1'000'000, true}), HasSubstr("more than 2^63 points"));
}

TEST(GridValidationTest, AParameterUnderAConditionCountsOnlyWhereItIsActive) {
  // 10^4 x 10^4 as a product, but 10^4 + 10^4 in truth.
  EXPECT_EQ(
      ValidationError(
          Space({Bool("b"), When("b", {true}, Int("i", 1, 10'000)), When("b", {false}, Int("j", 1, 10'000))}), {}),
      "");
}

}  // namespace
}  // namespace luthier::search
