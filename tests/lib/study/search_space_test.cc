#include "lib/study/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");
constexpr int64_t kMostExact = int64_t{1} << 53;

// "" for a good list, else all violations.
std::string CreateError(std::vector<ParameterSpec> parameters) {
  const absl::StatusOr<SearchSpace> space = SearchSpace::Create(std::move(parameters));
  if (space.ok()) return "";
  EXPECT_EQ(space.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetReason(space.status()), base::reason::kBadField);
  return std::string(space.status().message());
}

struct BadSpace {
  const char* name;
  std::vector<ParameterSpec> parameters;
  const char* field;    // How the first violation begins.
  const char* because;  // And what it says.
};

void PrintTo(const BadSpace& bad, std::ostream* out) {
  *out << bad.name;
}

class BadSpaceTest : public ::testing::TestWithParam<BadSpace> {};

TEST_P(BadSpaceTest, IsRefusedNamingTheField) {
  EXPECT_THAT(CreateError(GetParam().parameters), AllOf(StartsWith(GetParam().field), HasSubstr(GetParam().because)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSpaceTest,
    ::testing::Values(
        BadSpace{"NoName", {Float("", 0, 1)}, "[0].name: ", "required"},
        BadSpace{"NameWithSpace", {Float("a b", 0, 1)}, "[0].name: ", "is not a name"},
        BadSpace{"NameStartsWithDigit", {Float("1a", 0, 1)}, "[0].name: ", "is not a name"},
        BadSpace{"NameTooLong", {Float(std::string(65, 'a'), 0, 1)}, "[0].name: ", "at most 64"},
        BadSpace{"NameHostile", {Float("a\nb", 0, 1)}, "[0].name: ", "\\x0a"},
        BadSpace{"NameReserved", {Float("luthier.trial", 0, 1)}, "[0].name: ", "reserved"},
        BadSpace{"DuplicateName", {Float("a", 0, 1), Bool("b"), Bool("a")}, "[2].name: ", "used twice"},
        BadSpace{"FloatMinAboveMax", {Bool("b"), Float("a", 2, 1)}, "[1].float.max: ", "1 is below min 2"},
        BadSpace{"FloatMinNaN", {Float("a", kNaN, 1)}, "[0].float.min: ", "NaN is not finite"},
        BadSpace{"FloatMaxNaN", {Float("a", 0, kNaN)}, "[0].float.max: ", "NaN is not finite"},
        BadSpace{"FloatMinInfinite", {Float("a", -kNoLimit, 1)}, "[0].float.min: ", "-inf is not finite"},
        BadSpace{"FloatMaxInfinite", {Float("a", 0, kNoLimit)}, "[0].float.max: ", "inf is not finite"},
        BadSpace{"FloatTooWide", {Float("a", -1e308, 1e308)}, "[0].float: ", "wider than"},
        BadSpace{"LogOfZero", {Float("a", 0, 1, Scale::kLog)}, "[0].float.min: ", "not above 0"},
        BadSpace{"LogOfNegative", {Float("a", -1, 1, Scale::kLog)}, "[0].float.min: ", "not above 0"},
        BadSpace{"LogitFromZero", {Float("a", 0, 0.5, Scale::kLogit)}, "[0].float: ", "not inside (0, 1)"},
        BadSpace{"LogitToOne", {Float("a", 0.5, 1, Scale::kLogit)}, "[0].float: ", "not inside (0, 1)"},
        BadSpace{"StepZero", {Float("a", 0, 1, Scale::kLinear, 0.0)}, "[0].float.step: ", "above 0"},
        BadSpace{"StepNegative", {Float("a", 0, 1, Scale::kLinear, -0.1)}, "[0].float.step: ", "above 0"},
        BadSpace{"StepNaN", {Float("a", 0, 1, Scale::kLinear, kNaN)}, "[0].float.step: ", "NaN is not"},
        BadSpace{"StepInfinite", {Float("a", 0, 1, Scale::kLinear, kNoLimit)}, "[0].float.step: ", "inf is not"},
        BadSpace{"StepTiny", {Float("a", 0, 1, Scale::kLinear, 1e-300)}, "[0].float.step: ", "2^53 levels"},
        BadSpace{"StepWithLog", {Float("a", 1, 2, Scale::kLog, 0.1)}, "[0].float.step: ", "scale LINEAR"},
        BadSpace{"IntMinAboveMax", {Int("a", 2, 1)}, "[0].int.max: ", "1 is below min 2"},
        BadSpace{"IntTooSmall", {Int("a", -kMostExact - 1, 0)}, "[0].int.min: ", "beyond"},
        BadSpace{"IntTooLarge", {Int("a", 0, kMostExact + 1)}, "[0].int.max: ", "beyond"},
        BadSpace{"IntHuge",
                 {Int("a", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())},
                 "[0].int.min: ",
                 "beyond"},
        BadSpace{"IntStepZero", {Int("a", 0, 1, 0)}, "[0].int.step: ", "not at least 1"},
        BadSpace{"IntStepNegative", {Int("a", 0, 1, -1)}, "[0].int.step: ", "not at least 1"},
        BadSpace{"IntLogOfZero", {Int("a", 0, 1, 1, Scale::kLog)}, "[0].int.min: ", "below 1"},
        BadSpace{"IntLogWithStep", {Int("a", 1, 9, 2, Scale::kLog)}, "[0].int.step: ", "scale LINEAR"},
        BadSpace{"IntLogit", {Int("a", 1, 9, 1, Scale::kLogit)}, "[0].int.scale: ", "LOGIT"},
        BadSpace{"NoOrdinalLabels", {Ordinal("a", {})}, "[0].ordinal.values: ", "is empty"},
        BadSpace{"NoCategoricalLabels", {Categorical("a", {})}, "[0].categorical.values: ", "is empty"},
        BadSpace{"EmptyLabel", {Categorical("a", {"x", ""})}, "[0].categorical.values[1]: ", "is empty"},
        BadSpace{"DuplicateLabel", {Ordinal("a", {"x", "y", "x"})}, "[0].ordinal.values[2]: ", "\"x\" is there twice"},
        BadSpace{"LabelWithNewline", {Ordinal("a", {"x\n"})}, "[0].ordinal.values[0]: ", "control character"},
        BadSpace{"LabelTooLong", {Ordinal("a", {std::string(257, 'x')})}, "[0].ordinal.values[0]: ", "256"},
        BadSpace{"TooManyLabels", {Categorical("a", Labels(1001))}, "[0].categorical.values: ", "1001 labels"},
        BadSpace{"DefaultOutside", {WithDefault(2.0, Float("a", 0, 1))}, "[0].default_value: ", "outside [0, 1]"},
        BadSpace{"DefaultNaN", {WithDefault(kNaN, Float("a", 0, 1))}, "[0].default_value: ", "not finite"},
        BadSpace{
            "DefaultOfWrongKind", {WithDefault(std::string("x"), Int("a", 0, 1))}, "[0].default_value: ", "number"},
        BadSpace{"DefaultNoLabel",
                 {WithDefault(std::string("adm"), Categorical("a", {"sgd", "adam"}))},
                 "[0].default_value: ",
                 "did you mean \"adam\""},
        BadSpace{"DefaultOffStep",
                 {WithDefault(0.25, Float("a", 0, 1, Scale::kLinear, 0.1))},
                 "[0].default_value: ",
                 "not on a step"},
        BadSpace{"UnknownParent",
                 {Bool("use_bias"), When("use_bia", {true}, Float("a", 0, 1))},
                 "[1].condition.parent: ",
                 "did you mean \"use_bias\""},
        BadSpace{"ContinuousParent",
                 {Float("x", 0, 1), When("x", {0.5}, Float("a", 0, 1))},
                 "[1].condition.parent: ",
                 "continuous"},
        BadSpace{"NoConditionValues", {Bool("b"), When("b", {}, Float("a", 0, 1))}, "[1].condition.values: ", "empty"},
        BadSpace{"ForeignConditionValue",
                 {Categorical("c", {"x", "y"}), When("c", {std::string("x"), std::string("z")}, Float("a", 0, 1))},
                 "[1].condition.values[1]: ",
                 "not one of its labels"},
        BadSpace{"OwnParent", {When("b", {true}, Bool("b"))}, "[0].condition.parent: ", "cycle"},
        BadSpace{"Cycle",
                 {When("c", {true}, Bool("a")), When("a", {true}, Bool("b")), When("b", {true}, Bool("c"))},
                 "[0].condition.parent: ",
                 "cycle"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(SearchSpaceTest, AllViolationsAreReportedAtOnce) {
  const std::string error = CreateError({Float("a", 2, 1), Int("a", 0, 1, 0), Categorical("c", {})});
  EXPECT_THAT(error, HasSubstr("[0].float.max"));
  EXPECT_THAT(error, HasSubstr("[1].name"));
  EXPECT_THAT(error, HasSubstr("[1].int.step"));
  EXPECT_THAT(error, HasSubstr("[2].categorical.values"));
}

TEST(SearchSpaceTest, AThousandParametersAreTheLimit) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < kMaxParameters; ++i) parameters.push_back(Float(absl::StrCat("p", i), 0, 1));
  EXPECT_EQ(CreateError(parameters), "");
  parameters.push_back(Float("one_more", 0, 1));
  EXPECT_THAT(CreateError(parameters), HasSubstr("1001 parameters"));
}

TEST(SearchSpaceTest, ExtremeButLegalRangesAreAccepted) {
  EXPECT_EQ(CreateError({Float("a", 1e-300, 1e300, Scale::kLog)}), "");
  EXPECT_EQ(CreateError({Float("a", 5e-324, 1.7e308, Scale::kLog)}), "");
  EXPECT_EQ(CreateError({Float("a", -8e307, 8e307)}), "");
  EXPECT_EQ(CreateError({Float("a", 1e-300, 1 - 1e-16, Scale::kLogit)}), "");
  EXPECT_EQ(CreateError({Int("a", -kMostExact, kMostExact)}), "");
  EXPECT_EQ(CreateError({Int("a", 1, kMostExact, 1, Scale::kLog)}), "");
  EXPECT_EQ(CreateError({Float("a", 3, 3), Int("b", 3, 3), Categorical("c", {"x"})}), "");
  EXPECT_EQ(CreateError({Float("a", 0, 1, Scale::kLinear, 2.0)}), "");
  EXPECT_EQ(CreateError({Float(std::string(64, 'a'), 0, 1), Float("_.1", 0, 1)}), "");
}

// A chain of a thousand conditions, children listed first.
TEST(SearchSpaceTest, LongChainsOfConditionsAreOrdered) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < kMaxParameters - 1; ++i) {
    parameters.push_back(When(absl::StrCat("p", i + 1), {true}, Bool(absl::StrCat("p", i))));
  }
  parameters.push_back(Bool(absl::StrCat("p", kMaxParameters - 1)));
  const SearchSpace space = Space(parameters);
  ASSERT_EQ(space.topological_order().size(), static_cast<size_t>(kMaxParameters));
  for (int k = 0; k < kMaxParameters; ++k) EXPECT_EQ(space.topological_order()[k], kMaxParameters - 1 - k);
  EXPECT_EQ(space.parent(0), 1);
  EXPECT_EQ(space.parent(kMaxParameters - 1), -1);
}

TEST(SearchSpaceTest, OnlyFloatsWithoutStepAreDifferentiable) {
  const SearchSpace space = Space({Int("i", 0, 5), Float("x", 0, 1), Float("s", 0, 1, Scale::kLinear, 0.5), Bool("b"),
                                   Float("l", 1, 2, Scale::kLog), Float("c", 1, 1)});
  EXPECT_THAT(space.differentiable(), ElementsAre(Scalar{1, 0}, Scalar{4, 0}, Scalar{5, 0}));
}

TEST(SearchSpaceTest, LevelsAreCountedAndNumbered) {
  const SearchSpace space = Space({Float("x", 0, 1), Float("c", 2, 2), Float("s", 0, 1, Scale::kLinear, 0.3),
                                   Float("t", 0, 0.3, Scale::kLinear, 0.1), Int("i", 3, 10, 3),
                                   Ordinal("o", {"a", "b"}), Categorical("k", {"u", "v", "w"}), Bool("b")});
  EXPECT_EQ(space.Levels(0), std::nullopt);
  EXPECT_FALSE(space.IsConstant(0));
  EXPECT_EQ(space.Levels(1), 1);
  EXPECT_TRUE(space.IsConstant(1));
  EXPECT_EQ(space.Levels(2), 4);  // 0, 0.3, 0.6, 0.9
  EXPECT_EQ(space.Levels(3), 4);  // 0.3 / 0.1 is just below 3.
  EXPECT_EQ(space.Levels(4), 3);  // 3, 6, 9
  EXPECT_EQ(space.Levels(5), 2);
  EXPECT_EQ(space.Levels(6), 3);
  EXPECT_EQ(space.Levels(7), 2);
  EXPECT_EQ(space.LevelValue(3, 3), ParameterValue(0.3));
  EXPECT_EQ(space.LevelValue(4, 2), ParameterValue(9.0));
  EXPECT_EQ(space.LevelValue(6, 1), ParameterValue("v"));
  EXPECT_EQ(space.LevelValue(7, 1), ParameterValue(true));
  for (int i = 1; i < space.size(); ++i) {
    for (int64_t level = 0; level < *space.Levels(i); ++level) {
      const ParameterValue value = space.LevelValue(i, level);
      EXPECT_EQ(CanonicalValue(space.parameters()[i].domain, value).value(), value);
      EXPECT_EQ(space.LevelOf(i, value), level);
    }
  }
}

TEST(SearchSpaceTest, CardinalityIsTheProductOfLevels) {
  EXPECT_EQ(Space({Int("i", 1, 10), Bool("b"), Categorical("c", {"x", "y", "z"})}).Cardinality(), 60);
  EXPECT_EQ(Space({Int("i", 1, 10), Float("x", 0, 1)}).Cardinality(), std::nullopt);
  EXPECT_EQ(Space({Int("i", 0, kMostExact - 1), Int("j", 0, 1023)}).Cardinality(), std::nullopt);
  EXPECT_EQ(Space({Int("i", 0, kMostExact - 1), Int("j", 0, 511)}).Cardinality(), int64_t{1} << 62);
}

struct ValueCase {
  const char* name;
  ParameterSpec parameter;
  ParameterValue given;
  std::optional<ParameterValue> canonical;  // Absent: refused.
};

void PrintTo(const ValueCase& c, std::ostream* out) {
  *out << c.name;
}

class CanonicalValueTest : public ::testing::TestWithParam<ValueCase> {};

TEST_P(CanonicalValueTest, IsSnappedOrRefused) {
  const ValueCase& c = GetParam();
  const absl::StatusOr<ParameterValue> value = CanonicalValue(c.parameter.domain, c.given);
  ASSERT_EQ(value.ok(), c.canonical.has_value()) << value.status();
  if (!value.ok()) return;
  EXPECT_EQ(*value, *c.canonical);
  const double* x = std::get_if<double>(&*value);
  EXPECT_FALSE(x != nullptr && *x == 0.0 && std::signbit(*x));
}

const ParameterSpec kLog = Float("x", 1e-8, 1e4, Scale::kLog);
const ParameterSpec kSteps = Float("x", 0, 1, Scale::kLinear, 0.1);

INSTANTIATE_TEST_SUITE_P(
    All, CanonicalValueTest,
    ::testing::Values(
        ValueCase{"Inside", Float("x", 0, 1), 0.3, 0.3}, ValueCase{"NegativeZero", Float("x", 0, 1), -0.0, 0.0},
        ValueCase{"RoundedBelow", Float("x", 0, 1), -1e-10, 0.0},
        ValueCase{"RoundedAbove", Float("x", 0, 1), 1 + 1e-10, 1.0},
        ValueCase{"Below", Float("x", 0, 1), -1e-8, std::nullopt},
        ValueCase{"NaN", Float("x", 0, 1), kNaN, std::nullopt},
        ValueCase{"Infinite", Float("x", 0, 1), kNoLimit, std::nullopt},
        ValueCase{"Text", Float("x", 0, 1), std::string("0.5"), std::nullopt},
        ValueCase{"Flag", Float("x", 0, 1), true, std::nullopt}, ValueCase{"Constant", Float("x", 0.1, 0.1), 0.1, 0.1},
        ValueCase{"NotTheConstant", Float("x", 0.1, 0.1), 0.2, std::nullopt},
        ValueCase{"ZeroIsNotALogValue", kLog, 0.0, std::nullopt},
        ValueCase{"NegativeIsNotALogValue", kLog, -1e-9, std::nullopt},
        ValueCase{"BelowLog", kLog, 0.99e-8, std::nullopt},
        ValueCase{"RoundedBelowLog", kLog, 1e-8 * (1 - 1e-10), 1e-8},
        ValueCase{"ZeroOfExtremeLog", Float("x", 1e-300, 1e300, Scale::kLog), 0.0, std::nullopt},
        ValueCase{"OneIsNotALogitValue", Float("x", 1e-6, 1 - 1e-6, Scale::kLogit), 1.0, std::nullopt},
        ValueCase{"OnStep", kSteps, 0.3, 0.3}, ValueCase{"OnSumOfSteps", kSteps, 0.1 + 0.1 + 0.1, 0.3},
        ValueCase{"OffStep", kSteps, 0.34, std::nullopt}, ValueCase{"LastStep", kSteps, 1.0, 1.0},
        ValueCase{"OffStepOfLargeNumbers", Float("x", 1e10, 1e10 + 1, Scale::kLinear, 0.25), 1e10 + 0.1, std::nullopt},
        ValueCase{"OnStepOfLargeNumbers", Float("x", 1e10, 1e10 + 1, Scale::kLinear, 0.25), 1e10 + 0.5, 1e10 + 0.5},
        ValueCase{"Whole", Int("i", 0, 9), 3.0, 3.0}, ValueCase{"NearlyWhole", Int("i", 0, 9), 3.0 + 1e-12, 3.0},
        ValueCase{"Fraction", Int("i", 0, 9), 3.5, std::nullopt},
        ValueCase{"IntNaN", Int("i", 0, 9), kNaN, std::nullopt},
        ValueCase{"IntInfinite", Int("i", 0, 9), -kNoLimit, std::nullopt},
        ValueCase{"LargeFraction", Int("i", 0, kMostExact), 1e12 + 0.25, std::nullopt},
        ValueCase{"IntOutside", Int("i", 0, 9), 10.0, std::nullopt},
        ValueCase{"IntOffStep", Int("i", 0, 9, 2), 3.0, std::nullopt},
        ValueCase{"IntOnStep", Int("i", 0, 9, 2), 4.0, 4.0}, ValueCase{"Label", Ordinal("o", {"a", "b"}), "b", "b"},
        ValueCase{"NoLabel", Ordinal("o", {"a", "b"}), "c", std::nullopt},
        ValueCase{"LabelReadAsNumber", Categorical("o", {"16", "32"}), 32.0, "32"},
        ValueCase{"LabelOfTheSameNumber", Categorical("o", {"0.5", "1.0"}), 1.0, "1.0"},
        ValueCase{"LabelWrittenAlikeFirst", Categorical("o", {"1.0", "1"}), 1.0, "1"},
        ValueCase{"TwoLabelsOfTheSameNumber", Categorical("o", {"1.0", "1.00"}), 1.0, std::nullopt},
        ValueCase{"LabelReadAsBool", Categorical("o", {"true", "auto"}), true, "true"},
        ValueCase{"True", Bool("b"), true, true}, ValueCase{"TrueAsText", Bool("b"), "true", true},
        ValueCase{"BoolAsNumber", Bool("b"), 1.0, std::nullopt},
        ValueCase{"BoolAsWord", Bool("b"), "yes", std::nullopt}),
    [](const auto& param) { return std::string(param.param.name); });

SearchSpace WithCondition() {
  return Space({Categorical("optimizer", {"sgd", "adam"}), When("optimizer", {"sgd"}, Float("momentum", 0, 0.99)),
                When("optimizer", {"adam"}, Float("beta", 0.5, 0.999)), When("optimizer", {"sgd"}, Bool("nesterov")),
                When("nesterov", {true}, Int("delay", 0, 10)), Float("lr", 1e-5, 1, Scale::kLog)});
}

TEST(SettingTest, ExactlyTheActiveParametersMustBeThere) {
  const SearchSpace space = WithCondition();
  EXPECT_TRUE(space.Validate({{"optimizer", "adam"}, {"beta", 0.9}, {"lr", 0.1}}).ok());
  EXPECT_TRUE(
      space.Validate({{"optimizer", "sgd"}, {"momentum", 0.5}, {"nesterov", true}, {"delay", 3.0}, {"lr", 0.1}}).ok());
  const auto error = [&](const Parameters& p) { return std::string(space.Validate(p).message()); };
  EXPECT_THAT(error({{"optimizer", "adam"}, {"lr", 0.1}}), HasSubstr("beta: is missing"));
  EXPECT_THAT(error({{"optimizer", "adam"}, {"beta", 0.9}, {"momentum", 0.5}, {"lr", 0.1}}),
              HasSubstr("momentum: is inactive here (its condition on \"optimizer\" does not hold)"));
  EXPECT_THAT(error({{"optimizer", "sgd"}, {"momentum", 0.5}, {"nesterov", false}, {"delay", 3.0}, {"lr", 0.1}}),
              HasSubstr("delay: is inactive"));
  EXPECT_THAT(error({{"optimizer", "adam"}, {"beta", 0.9}, {"lr", 0.1}, {"betta", 0.9}}),
              HasSubstr("betta: is not a parameter of the study (did you mean \"beta\"?)"));
  EXPECT_THAT(error({{"optimizer", "adam"}, {"beta", 2.0}, {"lr", 0.0}}),
              AllOf(HasSubstr("beta: 2 is outside"), HasSubstr("lr: 0 is outside"),
                    HasSubstr("give a value within these bounds")));
}

TEST(SettingTest, HostileNamesAreQuoted) {
  const absl::Status status = WithCondition().Validate({{std::string(100'000, 'x') + "\n", 1.0}});
  EXPECT_LT(status.message().size(), 2000u);
}

TEST(SettingTest, MissingValuesAreCompletedByDefaultThenMiddle) {
  const SearchSpace space = Space({Float("lin", 0, 10), Float("log", 1e-4, 1, Scale::kLog),
                                   Float("logit", 0.1, 0.9, Scale::kLogit), Float("step", 0, 1, Scale::kLinear, 0.1),
                                   Int("i", 0, 9), Int("j", 1, 100, 1, Scale::kLog), Ordinal("o", {"a", "b", "c"}),
                                   Categorical("c", {"u", "v"}), Bool("b"), WithDefault(7.0, Float("d", 0, 10))});
  const Parameters middle = space.Default();
  EXPECT_EQ(middle.at("lin"), ParameterValue(5.0));
  EXPECT_NEAR(std::get<double>(middle.at("log")), 1e-2, 1e-12);
  EXPECT_NEAR(std::get<double>(middle.at("logit")), 0.5, 1e-12);
  EXPECT_EQ(middle.at("step"), ParameterValue(0.5));
  EXPECT_EQ(middle.at("i"), ParameterValue(4.0));
  EXPECT_EQ(middle.at("j"), ParameterValue(10.0));
  EXPECT_EQ(middle.at("o"), ParameterValue("b"));
  EXPECT_EQ(middle.at("c"), ParameterValue("u"));
  EXPECT_EQ(middle.at("b"), ParameterValue(false));
  EXPECT_EQ(middle.at("d"), ParameterValue(7.0));
  EXPECT_EQ(space.Complete({{"d", 1.0}, {"c", "v"}})->at("d"), ParameterValue(1.0));
  EXPECT_FALSE(space.Complete({{"nonsense", 1.0}}).ok());
}

TEST(SettingTest, MiddlesOfExtremeRangesAreInside) {
  const SearchSpace space = Space({Float("a", 1e-300, 1e300, Scale::kLog), Float("b", 5e-324, 0.5, Scale::kLogit),
                                   Float("c", 1e-300, 1 - 1e-16, Scale::kLogit), Float("d", -8e307, 8e307),
                                   Int("e", -kMostExact, kMostExact), Int("f", 1, kMostExact, 1, Scale::kLog)});
  EXPECT_TRUE(space.Validate(space.Default()).ok());
  EXPECT_NEAR(std::get<double>(space.Default().at("a")), 1.0, 1e-9);
}

TEST(SettingTest, CompletionFollowsConditions) {
  const SearchSpace space = WithCondition();
  EXPECT_EQ(space.Complete({{"optimizer", "adam"}})->count("beta"), 1u);
  EXPECT_EQ(space.Complete({{"optimizer", "adam"}})->count("momentum"), 0u);
  EXPECT_EQ(space.Complete({{"nesterov", true}})->count("delay"), 1u);
  EXPECT_FALSE(space.Complete({{"optimizer", "adam"}, {"momentum", 0.5}}).ok());
}

// 0.1 + 0.2 is not the double 0.3, yet means the step that the child's condition names.
TEST(SettingTest, CompletionSnapsParentsBeforeItLooksAtTheirChildren) {
  const SearchSpace space = Space({Float("s", 0, 1, Scale::kLinear, 0.1), When("s", {0.3}, Bool("child")),
                                   Categorical("n", {"1", "2"}), When("n", {"2"}, Bool("grandchild"))});
  const absl::StatusOr<Parameters> completed = space.Complete({{"s", 0.1 + 0.2 + 1e-12}, {"n", 2.0}});
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->count("child"), 1u);
  EXPECT_EQ(completed->count("grandchild"), 1u);
}

// Canonical settings are fixed points, and completing nothing gives a valid setting, in any space.
TEST(SettingTest, CanonicalIsIdempotentOnRandomSpaces) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/space");
    const SearchSpace space = RandomSpace(random);
    const Parameters setting = space.Default();
    ASSERT_TRUE(space.Validate(setting).ok()) << space.Validate(setting);
    ASSERT_EQ(*space.Canonical(setting), setting);
    ASSERT_EQ(*space.Complete(setting), setting);
    ASSERT_EQ(*SearchSpace::Create(space.parameters()), space);
  }
}

}  // namespace
}  // namespace luthier::study
