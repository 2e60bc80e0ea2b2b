#include "lib/study/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using Eigen::VectorXd;
using ::testing::ElementsAre;

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr int64_t kTwo53 = int64_t{1} << 53;

// The encoding of a space of one parameter "x".
Encoding One(ParameterSpec parameter) {
  return Encoding(Space({std::move(parameter)}));
}
double Forward(const Encoding& e, ParameterValue x) {
  return e.ToCompact({{"x", std::move(x)}})[0];
}
ParameterValue Back(const Encoding& e, double u) {
  return e.FromCompact(VectorXd::Constant(1, u)).at("x");
}
double BackNumber(const Encoding& e, double u) {
  return std::get<double>(Back(e, u));
}

// Wilson-Hilferty: chi-squared with k degrees of freedom is about k (1 - 2/9k + z sqrt(2/9k))^3; z = 3.72 is p = 1e-4.
double ChiSquaredLimit(double k) {
  return k * std::pow(1 - 2 / (9 * k) + 3.72 * std::sqrt(2 / (9 * k)), 3);
}

TEST(EncodingTest, FormulasOfTheTable) {
  EXPECT_DOUBLE_EQ(Forward(One(Float("x", 2, 6)), 3.0), 0.25);
  EXPECT_NEAR(Forward(One(Float("x", 1e-4, 1, Scale::kLog)), 1e-3), 0.25, 1e-15);
  // logit 0.1 = -2.197.., logit 0.9 = 2.197..: 0.5 is the middle and 0.75 (logit 1.0986) three quarters.
  EXPECT_NEAR(Forward(One(Float("x", 0.1, 0.9, Scale::kLogit)), 0.75), 0.75, 1e-15);
  EXPECT_DOUBLE_EQ(Forward(One(Int("x", 10, 30, 10)), 20.0), 0.5);
  EXPECT_DOUBLE_EQ(Forward(One(Int("x", 0, 4)), 0.0), 0.1);
  EXPECT_DOUBLE_EQ(Forward(One(Float("x", 0, 1, Scale::kLinear, 0.5)), 0.5), 0.5);
  EXPECT_DOUBLE_EQ(Forward(One(Float("x", 0, 1, Scale::kLinear, 0.5)), 0.0), 1.0 / 6);
  EXPECT_NEAR(Forward(One(Int("x", 1, 8, 1, Scale::kLog)), 2.0), std::log(4.0) / std::log(17.0), 1e-15);
  EXPECT_DOUBLE_EQ(Forward(One(Ordinal("x", {"a", "b"})), "b"), 0.75);
  EXPECT_DOUBLE_EQ(Forward(One(Categorical("x", {"a", "b", "c", "d"})), "a"), 0.125);
  EXPECT_DOUBLE_EQ(Forward(One(Bool("x")), false), 0.25);
  EXPECT_DOUBLE_EQ(Forward(One(Bool("x")), true), 0.75);
}

TEST(EncodingTest, ConstantsTakeNoCoordinateAndComeBack) {
  const Encoding e(Space({Float("f", 3, 3), Int("i", 2, 2), Int("j", 1, 5, 9), Categorical("c", {"only"}),
                          Ordinal("o", {"one"}), Float("s", 0, 1, Scale::kLinear, 2.0)}));
  EXPECT_EQ(e.compact_dim(), 0);
  EXPECT_EQ(e.model_dim(), 0);
  const Parameters expected = {{"f", 3.0}, {"i", 2.0}, {"j", 1.0}, {"c", "only"}, {"o", "one"}, {"s", 0.0}};
  EXPECT_EQ(e.FromCompact(VectorXd(0)), expected);
  EXPECT_EQ(e.FromModel(VectorXd(0)), expected);
  EXPECT_EQ(e.ToCompact(expected).size(), 0);
}

// Float kinds: what must hold at the ends, in between, and for numbers that are none.
class FloatEncodingTest : public ::testing::TestWithParam<std::pair<const char*, ParameterSpec>> {
 protected:
  const Encoding encoding_ = One(GetParam().second);
  const FloatRange range_ = std::get<FloatRange>(GetParam().second.domain);
};

TEST_P(FloatEncodingTest, EndsMapToExactlyZeroAndOneAndBack) {
  EXPECT_EQ(Forward(encoding_, range_.min), 0.0);
  EXPECT_EQ(Forward(encoding_, range_.max), 1.0);
  EXPECT_EQ(BackNumber(encoding_, 0.0), range_.min);
  EXPECT_EQ(BackNumber(encoding_, 1.0), range_.max);
}

TEST_P(FloatEncodingTest, CoordinatesOutsideTheUnitIntervalAreClamped) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(BackNumber(encoding_, -1e300), range_.min);
  EXPECT_EQ(BackNumber(encoding_, -inf), range_.min);
  EXPECT_EQ(BackNumber(encoding_, inf), range_.max);
  EXPECT_EQ(BackNumber(encoding_, std::nan("")), BackNumber(encoding_, 0.5));
}

TEST_P(FloatEncodingTest, DecodedValuesAreInsideAndIncrease) {
  double previous = range_.min;
  for (int i = 0; i <= 10'000; ++i) {
    const double x = BackNumber(encoding_, i / 10'000.0);
    ASSERT_GE(x, range_.min);
    ASSERT_LE(x, range_.max);
    ASSERT_GE(x, previous) << i;
    previous = x;
  }
}

TEST_P(FloatEncodingTest, ValuesSurviveTheRoundTrip) {
  base::RandomStream random(1, "test/roundtrip");
  double tolerance = 4 * kEps * std::max(std::abs(range_.min), std::abs(range_.max));
  for (int i = 0; i < 10'000; ++i) {
    const double x = BackNumber(encoding_, random.Uniform());
    const double u = Forward(encoding_, x);
    ASSERT_GE(u, 0.0);
    ASSERT_LE(u, 1.0);
    if (range_.scale == Scale::kLog) {
      tolerance = 8 * kEps * std::max({1.0, std::abs(std::log(range_.min)), std::abs(std::log(range_.max))}) * x;
    } else if (range_.scale == Scale::kLogit) {
      // As log, near the closer of 0 and 1; there 1 - x is known to one unit in the last place of 1 at best.
      const double span = std::max(std::abs(std::log(range_.min)), std::abs(std::log1p(-range_.max)));
      tolerance = 8 * kEps * std::max(1.0, span) * x * (1.0 - x) + 2 * kEps * x;
    }
    ASSERT_NEAR(BackNumber(encoding_, u), x, tolerance) << "u = " << u;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ranges, FloatEncodingTest,
    ::testing::Values(std::pair("Unit", Float("x", 0, 1)), std::pair("Negative", Float("x", -7.5, -1.25)),
                      std::pair("Offset", Float("x", 1e6, 1e6 + 1)), std::pair("Wide", Float("x", -8e307, 8e307)),
                      std::pair("Tiny", Float("x", 0, 1e-300)), std::pair("Log", Float("x", 1e-8, 1e4, Scale::kLog)),
                      std::pair("LogExtreme", Float("x", 1e-300, 1e300, Scale::kLog)),
                      std::pair("LogSubnormal", Float("x", 5e-324, 1.7e308, Scale::kLog)),
                      std::pair("LogNarrow", Float("x", 1.0, 1.0 + 1e-10, Scale::kLog)),
                      std::pair("LogNarrowLarge", Float("x", 1e200, 1e200 * (1 + 1e-8), Scale::kLog)),
                      std::pair("Logit", Float("x", 0.01, 0.99, Scale::kLogit)),
                      std::pair("LogitLow", Float("x", 1e-12, 0.5, Scale::kLogit)),
                      std::pair("LogitHigh", Float("x", 0.5, 1 - 1e-12, Scale::kLogit)),
                      std::pair("LogitExtreme", Float("x", 1e-310, 1 - 1.2e-16, Scale::kLogit)),
                      std::pair("LogitNarrow", Float("x", 0.3, 0.3 + 1e-13, Scale::kLogit))),
    [](const auto& param) { return std::string(param.param.first); });

// Every kind with levels.
class LevelEncodingTest : public ::testing::TestWithParam<std::pair<const char*, ParameterSpec>> {
 protected:
  const Encoding encoding_ = One(GetParam().second);
  const int64_t levels_ = *encoding_.Levels(0);
  // Up to about a thousand levels, both ends among them.
  std::vector<int64_t> SomeLevels() const {
    std::vector<int64_t> some;
    const int64_t stride = std::max<int64_t>(1, levels_ / 997);
    for (int64_t level = 0; level < levels_; level += stride) some.push_back(level);
    some.push_back(levels_ - 1);
    return some;
  }
};

TEST_P(LevelEncodingTest, EveryLevelSurvivesTheRoundTripExactly) {
  double previous = 0.0;
  for (const int64_t level : SomeLevels()) {
    const ParameterValue value = encoding_.space().LevelValue(0, level);
    const VectorXd u = encoding_.ToCompact({{"x", value}});
    ASSERT_GE(u[0], previous);
    ASSERT_LE(u[0], 1.0);
    ASSERT_EQ(encoding_.FromCompact(u).at("x"), value) << "level " << level;
    ASSERT_EQ(encoding_.FromModel(encoding_.ToModel({{"x", value}})).at("x"), value) << "level " << level;
    previous = u[0];
  }
}

TEST_P(LevelEncodingTest, TheEndsOfTheUnitIntervalAreTheEndLevels) {
  for (const double u : {0.0, -0.0, -5.0}) EXPECT_EQ(Back(encoding_, u), encoding_.space().LevelValue(0, 0));
  for (const double u : {1.0, 5.0}) EXPECT_EQ(Back(encoding_, u), encoding_.space().LevelValue(0, levels_ - 1));
}

TEST_P(LevelEncodingTest, DecodedLevelsIncreaseAndAreLegal) {
  int64_t previous = 0;
  for (int i = 0; i <= 10'000; ++i) {
    const ParameterValue value = Back(encoding_, i / 10'000.0);
    ASSERT_EQ(CanonicalValue(GetParam().second.domain, value).value(), value);
    const int64_t level = encoding_.space().LevelOf(0, value);
    ASSERT_GE(level, previous);
    previous = level;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LevelEncodingTest,
                         ::testing::Values(std::pair("Int", Int("x", 0, 9)),
                                           std::pair("IntNegative", Int("x", -17, 40, 3)),
                                           std::pair("IntWide", Int("x", -(int64_t{1} << 49), (int64_t{1} << 49) - 1)),
                                           std::pair("IntLog", Int("x", 1, 1000, 1, Scale::kLog)),
                                           std::pair("IntLogOffset", Int("x", 1000, 1100, 1, Scale::kLog)),
                                           std::pair("IntLogWide", Int("x", 1, 1'000'000'000'000, 1, Scale::kLog)),
                                           std::pair("Stepped", Float("x", 0, 1, Scale::kLinear, 0.1)),
                                           std::pair("SteppedOddly", Float("x", -1.7, 3, Scale::kLinear, 1.0 / 3)),
                                           std::pair("SteppedFinely", Float("x", 0, 1, Scale::kLinear, 1e-9)),
                                           std::pair("Ordinal", Ordinal("x", {"s", "m", "l"})),
                                           std::pair("Categorical", Categorical("x", Labels(7))),
                                           std::pair("ManyLabels", Categorical("x", Labels(1000))),
                                           std::pair("Bool", Bool("x"))),
                         [](const auto& param) { return std::string(param.param.first); });

// Uniform coordinates make all levels equally likely.
TEST(EncodingTest, LevelsAreEquallyLikely) {
  for (const ParameterSpec& parameter :
       {Int("x", 0, 9), Int("x", -3, 20, 4), Ordinal("x", Labels(5)), Categorical("x", Labels(33)), Bool("x"),
        Float("x", 0, 1, Scale::kLinear, 0.1), Float("x", 0, 1, Scale::kLinear, 0.3)}) {
    constexpr int kDraws = 100'000;
    const Encoding e = One(parameter);
    base::RandomStream random(2, "test/chi2");
    std::vector<int> counts(static_cast<size_t>(*e.Levels(0)));
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(e.space().LevelOf(0, e.Sample(random).at("x")))];
    const double expected = double{kDraws} / static_cast<double>(counts.size());
    double chi2 = 0.0;
    for (const int count : counts) chi2 += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi2, ChiSquaredLimit(static_cast<double>(counts.size()) - 1)) << counts.size() << " levels";
  }
}

// An integer on a log scale has the probability of its half-open cell under the log-uniform law.
TEST(EncodingTest, LogIntegersAreLogUniformOverTheirCells) {
  constexpr int kDraws = 100'000;
  const Encoding e = One(Int("x", 1, 20, 1, Scale::kLog));
  base::RandomStream random(3, "test/logint");
  std::vector<int> counts(21);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(std::get<double>(e.Sample(random).at("x")))];
  double chi2 = 0.0;
  for (int k = 1; k <= 20; ++k) {
    const double expected = kDraws * std::log((k + 0.5) / (k - 0.5)) / std::log(20.5 / 0.5);
    chi2 += (counts[k] - expected) * (counts[k] - expected) / expected;
  }
  EXPECT_LT(chi2, ChiSquaredLimit(19));
}

TEST(EncodingTest, IntegersOfAllSizesStayInTheirRange) {
  for (const int64_t max : {kTwo53, kTwo53 - 1, kTwo53 - 2}) {
    for (const int64_t min : {-kTwo53, -kTwo53 + 1, int64_t{0}, kTwo53 - 3}) {
      const Encoding e = One(Int("x", min, max));
      EXPECT_EQ(BackNumber(e, 0.0), static_cast<double>(min));
      EXPECT_EQ(BackNumber(e, 1.0), static_cast<double>(max)) << min << " " << max;
      EXPECT_EQ(BackNumber(e, std::nextafter(1.0, 0.0)) <= static_cast<double>(max), true);
    }
    const Encoding e = One(Int("x", 1, max, 1, Scale::kLog));
    EXPECT_EQ(BackNumber(e, 0.0), 1.0);
    EXPECT_EQ(BackNumber(e, 1.0), static_cast<double>(max));
  }
}

// --- Model coordinates ---

TEST(ModelEncodingTest, CategoricalsTakeACoordinateALabelAndFlagsAreZeroOrOne) {
  const Encoding e(
      Space({Float("f", 0, 1), Categorical("c", {"x", "y", "z"}), Float("k", 2, 2), Bool("b"), Int("i", 0, 1)}));
  EXPECT_EQ(e.compact_dim(), 4);
  EXPECT_EQ(e.model_dim(), 6);
  EXPECT_THAT(e.ModelGroups(), ElementsAre(0, 1, 1, 1, 2, 3));
  EXPECT_EQ(e.compact_parameter(2), 3);
  EXPECT_TRUE(e.IsCategorical(1));
  EXPECT_FALSE(e.IsCategorical(2));
  const VectorXd u = e.ToModel({{"f", 0.25}, {"c", "y"}, {"k", 2.0}, {"b", true}, {"i", 0.0}});
  const double s = 1.0 / std::sqrt(2.0);
  EXPECT_THAT(std::vector<double>(u.begin(), u.end()), ElementsAre(0.25, 0.0, s, 0.0, 1.0, 0.25));
}

TEST(ModelEncodingTest, TwoLabelsAreAtDistanceOne) {
  const Encoding e = One(Categorical("x", Labels(4)));
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < a; ++b) {
      const double distance =
          (e.ToModel({{"x", absl::StrCat("v", a)}}) - e.ToModel({{"x", absl::StrCat("v", b)}})).norm();
      EXPECT_NEAR(distance, 1.0, 1e-15);
    }
  }
}

TEST(ModelEncodingTest, TheLargestCoordinateWinsAndTiesGoToTheFirst) {
  const Encoding e = One(Categorical("x", {"a", "b", "c"}));
  EXPECT_EQ(e.FromModel(Eigen::Vector3d(0.1, 0.3, 0.2)).at("x"), ParameterValue("b"));
  EXPECT_EQ(e.FromModel(Eigen::Vector3d(0.1, 0.3, 0.3)).at("x"), ParameterValue("b"));
  EXPECT_EQ(e.FromModel(Eigen::Vector3d(0, 0, 0)).at("x"), ParameterValue("a"));
}

TEST(ModelEncodingTest, SnappedPointsAreConstantInACell) {
  const Encoding e(Space({Int("i", 0, 4), Bool("b"), Categorical("c", {"x", "y"})}));
  VectorXd a(4), b(4);
  a << 0.41, 0.9, 0.6, 0.2;
  b << 0.59, 0.5, 0.3, 0.1;
  EXPECT_EQ(e.SnapModel(a), e.SnapModel(b));
  EXPECT_EQ(e.SnapModel(e.SnapModel(a)), e.SnapModel(a));
  EXPECT_EQ(e.SnapModel(a)[0], 0.5);
}

// --- Conditions ---

Encoding Conditional() {
  return Encoding(
      Space({When("kind", {"b"}, Float("x", 0, 10)), Categorical("kind", {"a", "b"}),
             When("x_int", {1.0, 2.0}, Categorical("deep", {"u", "v"})), When("kind", {"a"}, Int("x_int", 0, 3))}));
}

TEST(ConditionalEncodingTest, InactiveParametersAreLeftOutAndSitInTheMiddle) {
  const Encoding e = Conditional();
  ASSERT_EQ(e.compact_dim(), 4);
  const Parameters b = {{"kind", "b"}, {"x", 2.5}};
  const VectorXd u = e.ToCompact(b);
  EXPECT_THAT(std::vector<double>(u.begin(), u.end()), ElementsAre(0.25, 0.75, 0.5, 0.5));
  EXPECT_EQ(e.FromCompact(u), b);
  // Model: x, kind (2), deep (2, all zero), x_int.
  const VectorXd m = e.ToModel(b);
  EXPECT_THAT(std::vector<double>(m.begin(), m.end()), ElementsAre(0.25, 0.0, 1.0 / std::sqrt(2.0), 0.0, 0.0, 0.5));
  EXPECT_EQ(e.FromModel(m), b);
}

TEST(ConditionalEncodingTest, CoordinatesOfInactiveParametersDoNotMatter) {
  const Encoding e = Conditional();
  VectorXd u(4), v(4);
  u << 0.1, 0.2, 0.9, 0.6;  // kind a, x_int 2, so deep is active and x is not.
  v << 0.8, 0.3, 0.9, 0.7;
  EXPECT_EQ(e.FromCompact(u), (Parameters{{"kind", "a"}, {"x_int", 2.0}, {"deep", "v"}}));
  EXPECT_EQ(e.FromCompact(u), e.FromCompact(v));
  EXPECT_EQ(e.CompactToModel(u), e.CompactToModel(v));
}

// --- Gradients ---

// Central differences of the decoded value in u.
TEST(UserPerUnitTest, IsTheDerivativeOfTheDecodedValue) {
  const Encoding e(Space({Int("i", 0, 5), Float("lin", -3, 5), Float("log", 1e-4, 1e2, Scale::kLog), Bool("b"),
                          Float("logit", 0.01, 0.9, Scale::kLogit), Float("narrow", 1, 1 + 1e-10, Scale::kLog),
                          Float("constant", 2, 2)}));
  base::RandomStream random(4, "test/gradient");
  for (int repeat = 0; repeat < 100; ++repeat) {
    VectorXd u(e.compact_dim());
    for (Eigen::Index c = 0; c < u.size(); ++c) u[c] = 0.01 + 0.98 * random.Uniform();
    const Parameters values = e.FromCompact(u);
    for (size_t k = 0; k < e.space().differentiable().size(); ++k) {
      const Scalar& scalar = e.space().differentiable()[k];
      const std::string name = e.space().ScalarName(scalar);
      const double derivative = e.UserPerUnit(static_cast<int>(k), values);
      int c = 0;
      while (c < e.compact_dim() && e.compact_scalar(c) != scalar) ++c;
      if (c == e.compact_dim()) {
        EXPECT_EQ(derivative, 0.0) << name;
        continue;
      }
      constexpr double kStep = 1e-6;
      const double up = std::get<double>(e.DecodeCoordinate(c, u[c] + kStep));
      const double down = std::get<double>(e.DecodeCoordinate(c, u[c] - kStep));
      // The narrow range leaves few digits: there, its width is exact.
      if (name == "narrow")
        EXPECT_NEAR(derivative, (1 + 1e-10) - 1, 1e-20);
      else
        EXPECT_NEAR(derivative, (up - down) / (2 * kStep), 1e-6 * std::abs(derivative)) << name;
    }
  }
}

TEST(UserPerUnitTest, IsZeroWhereTheParameterIsInactive) {
  const Encoding e = Conditional();
  ASSERT_EQ(e.space().differentiable().size(), 1u);
  EXPECT_EQ(e.UserPerUnit(0, {{"kind", "b"}, {"x", 2.5}}), 10.0);
  EXPECT_EQ(e.UserPerUnit(0, {{"kind", "a"}, {"x_int", 0.0}}), 0.0);
}

// --- Any space ---

TEST(EncodingPropertyTest, SamplesAreCanonicalAndRoundTrip) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/space");
    const Encoding e(RandomSpace(random));
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Parameters values = e.Sample(random);
      ASSERT_EQ(e.space().Canonical(values).value(), values);
      const VectorXd compact = e.ToCompact(values);
      const VectorXd model = e.ToModel(values);
      ASSERT_TRUE(((compact.array() >= 0.0) && (compact.array() <= 1.0)).all()) << compact.transpose();
      ASSERT_TRUE(((model.array() >= 0.0) && (model.array() <= 1.0)).all()) << model.transpose();
      for (const Parameters& back : {e.FromCompact(compact), e.FromModel(model)}) {
        ASSERT_EQ(back.size(), values.size());
        for (const auto& [name, value] : values) {
          const auto* range = std::get_if<FloatRange>(&e.space().parameters()[*e.space().Find(name)].domain);
          if (range == nullptr || range->step) {
            ASSERT_EQ(back.at(name), value) << name;
          } else if (const auto* vector = std::get_if<std::vector<double>>(&value)) {
            const auto& again = std::get<std::vector<double>>(back.at(name));
            ASSERT_EQ(again.size(), vector->size());
            for (size_t k = 0; k < vector->size(); ++k) {
              ASSERT_NEAR(again[k], (*vector)[k], 1e-12 * std::max(std::abs(range->min), std::abs(range->max)));
            }
          } else {
            const double x = std::get<double>(value);
            ASSERT_NEAR(std::get<double>(back.at(name)), x,
                        1e-12 * std::max(std::abs(range->min), std::abs(range->max)));
          }
        }
      }
      ASSERT_TRUE(e.SnapModel(model).isApprox(model, 1e-12));
    }
  }
}

TEST(EncodingPropertyTest, AnyCoordinatesDecodeToAValidSetting) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/space");
    const Encoding e(RandomSpace(random));
    const double inf = std::numeric_limits<double>::infinity();
    for (const double hostile : {std::nan(""), inf, -inf, 1e308, -1e308, 5e-324, -0.0}) {
      VectorXd u(e.compact_dim()), m(e.model_dim());
      for (Eigen::Index c = 0; c < u.size(); ++c) u[c] = random.UniformInt(2) == 0 ? hostile : random.Uniform();
      for (Eigen::Index c = 0; c < m.size(); ++c) m[c] = random.UniformInt(2) == 0 ? hostile : random.Uniform();
      ASSERT_EQ(e.space().Canonical(e.FromCompact(u)).value(), e.FromCompact(u));
      ASSERT_EQ(e.space().Canonical(e.FromModel(m)).value(), e.FromModel(m));
    }
  }
}

TEST(EncodingPropertyTest, SamplingUsesOneNumberACoordinateWhateverIsActive) {
  base::RandomStream space_random(5, "test/space");
  const Encoding e(RandomSpace(space_random));
  base::RandomStream a(6, "s"), b(6, "s");
  e.Sample(a);
  for (int c = 0; c < e.compact_dim(); ++c) b.Uniform();
  EXPECT_EQ(a.NextU64(), b.NextU64());
}

}  // namespace
}  // namespace luthier::study
