// Parameters with a count: vectors of floats.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/study/encoding.h"
#include "lib/study/search_space.h"
#include "lib/study/warm_start.h"
#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::HasSubstr;
using Vec = std::vector<double>;

SearchSpace Mixed() {
  return Space({Categorical("kind", {"a", "b"}), WithDefault(1.0, Vector("l2", 1e-4, 1e4, 3, Scale::kLog)),
                When("kind", {"b"}, Vector("rate", 0, 2, 2)), Vector("fixed", 7, 7, 2), Float("x", -1, 1)});
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

std::string Violation(ParameterSpec parameter) {
  return Message(SearchSpace::Create({std::move(parameter)}).status());
}

TEST(VectorParametersTest, ScalarsAndDerivativesAreCountedOneByOne) {
  const SearchSpace space = Mixed();
  EXPECT_EQ(space.scalars(), 1 + 3 + 2 + 2 + 1);
  std::vector<std::string> names;
  for (const Scalar& scalar : space.differentiable()) names.push_back(space.ScalarName(scalar));
  EXPECT_THAT(names,
              ::testing::ElementsAre("l2[0]", "l2[1]", "l2[2]", "rate[0]", "rate[1]", "fixed[0]", "fixed[1]", "x"));
  EXPECT_FALSE(space.Cardinality());
  EXPECT_TRUE(space.IsConstant(*space.Find("fixed")));
}

TEST(VectorParametersTest, DefaultsFillAndMiddlesRepeat) {
  const Parameters defaults = Mixed().Default();
  EXPECT_EQ(defaults.at("l2"), ParameterValue(Vec{1, 1, 1}));
  EXPECT_EQ(defaults.at("fixed"), ParameterValue(Vec{7, 7}));
  EXPECT_FALSE(defaults.contains("rate"));
  EXPECT_EQ(Mixed().Complete({{"kind", "b"}})->at("rate"), ParameterValue(Vec{1, 1}));
  const SearchSpace listed = Space({WithDefault(Vec{1, 2}, Vector("v", 0, 5, 2))});
  EXPECT_EQ(listed.Default().at("v"), ParameterValue(Vec{1, 2}));
}

TEST(VectorParametersTest, EncodingGivesEachScalarACoordinateAndBack) {
  const Encoding encoding(Mixed());
  // kind, l2 x 3, rate x 2, x; the constant has none. In the model `kind` has two columns.
  EXPECT_EQ(encoding.compact_dim(), 7);
  EXPECT_EQ(encoding.model_dim(), 8);
  const Parameters values = {
      {"kind", "b"}, {"l2", Vec{1e-4, 1, 100}}, {"rate", Vec{0.5, 2}}, {"fixed", Vec{7, 7}}, {"x", 0.0}};
  const Eigen::VectorXd u = encoding.ToCompact(values);
  // (log10 100 + 4) / 8 = 3/4.
  const Vec expected = {0.75, 0, 0.5, 0.75, 0.25, 1, 0.5};
  for (int c = 0; c < 7; ++c) EXPECT_NEAR(u[c], expected[static_cast<size_t>(c)], 1e-12) << c;
  const Parameters back = encoding.FromCompact(u);
  EXPECT_EQ(back.at("rate"), values.at("rate"));
  EXPECT_EQ(back.at("fixed"), values.at("fixed"));
  EXPECT_NEAR(std::get<Vec>(back.at("l2"))[2], 100, 1e-9);
  EXPECT_TRUE(encoding.SnapModel(encoding.ToModel(values)).isApprox(encoding.ToModel(values), 1e-12));
  // An inactive vector is left out, and counts as the middle.
  Eigen::VectorXd other = u;
  other[0] = 0.25;
  EXPECT_FALSE(encoding.FromCompact(other).contains("rate"));
  EXPECT_EQ(encoding.ToCompact(encoding.FromCompact(other))[4], 0.5);
}

TEST(VectorParametersTest, UnitsOfDerivativesAreTheElements) {
  const Encoding encoding(Mixed());
  const Parameters values = {
      {"kind", "b"}, {"l2", Vec{1e-4, 1, 100}}, {"rate", Vec{0.5, 2}}, {"fixed", Vec{7, 7}}, {"x", 0.0}};
  const double log_range = std::log(1e8);
  EXPECT_NEAR(encoding.UserPerUnit(2, values), 100 * log_range, 1e-6);
  EXPECT_NEAR(encoding.UserPerUnit(1, values), log_range, 1e-10);
  EXPECT_DOUBLE_EQ(encoding.UserPerUnit(3, values), 2);
  EXPECT_EQ(encoding.UserPerUnit(5, values), 0);  // Constant.
  EXPECT_DOUBLE_EQ(encoding.UserPerUnit(7, values), 2);
}

TEST(VectorParametersTest, WrongSpacesSayWhy) {
  EXPECT_THAT(Violation(Vector("v", 0, 1, 0)), HasSubstr("[0].count: 0 is not between 1 and 100000"));
  EXPECT_THAT(Violation(Vector("v", 0, 1, 100'001)), HasSubstr("count: 100001 is not between"));
  ParameterSpec stepped = Float("v", 0, 1, Scale::kLinear, 0.5);
  stepped.count = 3;
  EXPECT_THAT(Violation(stepped), HasSubstr("for float parameters without a step"));
  ParameterSpec labels = Categorical("v", {"a"});
  labels.count = 3;
  EXPECT_THAT(Violation(labels), HasSubstr("for float parameters without a step"));
  EXPECT_THAT(Violation(WithDefault(9.0, Vector("v", 0, 1, 2))), HasSubstr("default_value: 9 is outside [0, 1]"));
  EXPECT_THAT(Violation(WithDefault(Vec{0, 1, 0}, Vector("v", 0, 1, 2))), HasSubstr("has 3 numbers; the vector has 2"));
  EXPECT_THAT(Violation(WithDefault(Vec{0}, Float("v", 0, 1))), HasSubstr("a list is not a number"));
  EXPECT_THAT(Message(SearchSpace::Create({Vector("a", 0, 1, 60'000), Vector("b", 0, 1, 60'000)}).status()),
              HasSubstr("has 120000 scalars"));
  EXPECT_THAT(Message(SearchSpace::Create({Vector("a", 0, 1, 2), When("a", {0.0}, Float("x", 0, 1))}).status()),
              HasSubstr("is continuous; conditions need a parent with levels"));
  EXPECT_TRUE(SearchSpace::Create({Vector("a", 0, 1, 100'000)}).ok());
}

TEST(VectorParametersTest, WrongValuesSayWhichElement) {
  const SearchSpace space = Space({Vector("v", 0, 1, 3)});
  EXPECT_THAT(Message(space.Validate({{"v", 0.5}})), HasSubstr("v: is a vector of 3 numbers; give a list"));
  EXPECT_THAT(Message(space.Validate({{"v", Vec{0, 1}}})), HasSubstr("v: has 2 numbers; the vector has 3"));
  EXPECT_THAT(Message(space.Validate({{"v", Vec{0, 1, 2}}})), HasSubstr("v[2]: 2 is outside [0, 1]"));
  EXPECT_THAT(Message(space.Validate({{"v", Vec{0, NAN, 1}}})), HasSubstr("v[1]: NaN is not finite"));
  // What printing loses is mended.
  EXPECT_EQ(space.Canonical({{"v", Vec{-1e-12, 0.5, 1 + 1e-12}}})->at("v"), ParameterValue(Vec{0, 0.5, 1}));
}

TEST(VectorParametersTest, TextAndHashTellVectorsApart) {
  EXPECT_EQ(FormatValue(Vec{1, 0.5}), "[1, 0.5]");
  EXPECT_EQ(FormatParameters({{"v", Vec{1}}, {"w", 2.0}}), "v=[1], w=2");
  const auto hash = [](ParameterValue value) { return HashOf({{"v", std::move(value)}}); };
  EXPECT_EQ(hash(Vec{0.0, 1}), hash(Vec{-0.0, 1}));
  EXPECT_NE(hash(Vec{0, 1}), hash(Vec{1, 0}));
  EXPECT_NE(hash(Vec{1}), hash(1.0));
  EXPECT_NE(hash(Vec{1, 1}), hash(Vec{1}));
}

TEST(VectorParametersTest, WarmStartsMeasureStrengthsByLogarithm) {
  const std::vector<WarmSource> sources = {{1, {{"l2", Vec{1, 1}}}}, {2, {{"l2", Vec{10, 1}}}}, {3, {{"l2", 1.0}}}};
  EXPECT_EQ(NearestSource(sources, {{"l2", Vec{9, 1}}}), 2);
  EXPECT_EQ(NearestSource(sources, {{"l2", Vec{1.5, 1}}}), 1);
  EXPECT_EQ(NearestSource(sources, {{"l2", Vec{1, 1, 1}}}), 0);
}

}  // namespace
}  // namespace luthier::study
