#include "lib/study/legal_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"
#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::HasSubstr;

ParameterConstraint Sum(std::map<std::string, double> weights, std::optional<double> at_least,
                        std::optional<double> at_most) {
  return {.sum = std::move(weights), .at_least = at_least, .at_most = at_most, .forbid = {}};
}

ForbiddenValues Values(std::vector<ParameterValue> values) {
  return {.values = std::move(values), .at_least = {}, .at_most = {}};
}

ForbiddenValues Range(std::optional<double> at_least, std::optional<double> at_most) {
  return {.values = {}, .at_least = at_least, .at_most = at_most};
}

ParameterConstraint Forbid(std::map<std::string, ForbiddenValues> values) {
  return {.sum = {}, .at_least = {}, .at_most = {}, .forbid = std::move(values)};
}

std::string FaultsOf(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints) {
  base::Violations violations;
  ValidateConstraints(space, constraints, &violations);
  return std::string(violations.ToStatus().message());
}

// Two numbers, labels, a switch and what exists with some labels only: 5 * 4 * (1 + 3 + 3) * 2 settings.
SearchSpace Small() {
  return Space({Int("n", 1, 5), Int("m", -2, 4, 2), Categorical("kind", {"none", "l1", "l2"}), Bool("flag"),
                When("kind", {std::string("l1"), std::string("l2")}, Int("rank", 1, 3))});
}

void ForEach(const std::function<void(const Parameters&)>& visit) {
  for (int n = 1; n <= 5; ++n) {
    for (int m = -2; m <= 4; m += 2) {
      for (const char* kind : {"none", "l1", "l2"}) {
        for (const bool flag : {false, true}) {
          for (int rank = 1; rank <= 3; ++rank) {
            Parameters setting = {{"n", double(n)},
                                  {"m", double(m)},
                                  {"kind", std::string(kind)},
                                  {"flag", flag},
                                  {"rank", double(rank)}};
            if (setting["kind"] == ParameterValue(std::string("none"))) {
              if (rank > 1) continue;
              setting.erase("rank");
            }
            visit(setting);
          }
        }
      }
    }
  }
}

double At(const Parameters& setting, const std::string& name) {
  const auto found = setting.find(name);
  return found == setting.end() ? 0.0 : std::get<double>(found->second);
}

TEST(LegalSettingsTest, TakesAndRefusesWhatBruteForceDoes) {
  const LegalSettings legal(
      Small(), {Sum({{"n", 2.0}, {"m", -1.0}, {"rank", 3.0}}, -1.0, 11.0),
                Forbid({{"kind", Values({std::string("l2")})}, {"flag", Values({true})}, {"n", Range(2.0, 3.0)}}),
                Forbid({{"rank", Range(std::nullopt, 1.0)}, {"m", Values({0.0, 4.0})}})});
  int taken = 0, all = 0;
  ForEach([&](const Parameters& setting) {
    const double sum = 2 * At(setting, "n") - At(setting, "m") + 3 * At(setting, "rank");
    const bool l2 = setting.at("kind") == ParameterValue(std::string("l2")), flag = std::get<bool>(setting.at("flag"));
    const bool second = l2 && flag && (At(setting, "n") == 2 || At(setting, "n") == 3);
    const bool third =
        setting.contains("rank") && At(setting, "rank") == 1 && (At(setting, "m") == 0 || At(setting, "m") == 4);
    const bool expected = sum >= -1 && sum <= 11 && !second && !third;
    EXPECT_EQ(legal.Contains(setting), expected) << FormatParameters(setting);
    EXPECT_EQ(legal.WhyNot(setting).empty(), expected);
    taken += expected;
    ++all;
  });
  EXPECT_EQ(all, 280);
  EXPECT_GT(taken, 50);
  EXPECT_LT(taken, 230);
}

TEST(LegalSettingsTest, ScalarsOfAVectorCountEach) {
  const LegalSettings legal(Space({Vector("v", 0, 1, 3)}), {Sum({{"v", 2.0}}, std::nullopt, 3.0)});
  EXPECT_TRUE(legal.Contains({{"v", std::vector<double>{0.5, 0.5, 0.5}}}));
  EXPECT_FALSE(legal.Contains({{"v", std::vector<double>{0.5, 0.5, 0.6}}}));
}

TEST(LegalSettingsTest, SumsThatCouldOverflowAreRefused) {
  const SearchSpace space = Space({Float("x", 0, 10), Float("y", -1e300, 1), Vector("v", 0, 1, 1000)});
  for (const auto& [name, weight] : std::map<std::string, double>{{"x", 1e300}, {"y", 1.1}, {"v", 1.1e297}}) {
    EXPECT_THAT(FaultsOf(space, {Sum({{name, weight}}, std::nullopt, 1.0)}),
                ::testing::HasSubstr("constraints[0].sum: can be as large as"))
        << name;
  }
  EXPECT_EQ(FaultsOf(space, {Sum({{"x", 1e298}, {"v", 1e296}}, std::nullopt, 1.0)}), "");
  EXPECT_THAT(FaultsOf(space, {Sum({{"x", 1e308}, {"y", 1e308}}, std::nullopt, 1.0)}),
              ::testing::HasSubstr("at most 1e+300 is allowed"));
}

TEST(LegalSettingsTest, RoundingBreaksNoBound) {
  const LegalSettings legal(Space({Float("a", 0, 1), Float("b", 0, 1), Float("c", 0, 1)}),
                            {Sum({{"a", 1.0}, {"b", 1.0}, {"c", 1.0}}, std::nullopt, 0.6)});
  EXPECT_GT(0.1 + 0.2 + 0.3, 0.6) << "the test needs numbers whose sum rounds up";
  EXPECT_TRUE(legal.Contains({{"a", 0.1}, {"b", 0.2}, {"c", 0.3}}));
  EXPECT_FALSE(legal.Contains({{"a", 0.1}, {"b", 0.2}, {"c", 0.300001}}));
}

TEST(LegalSettingsTest, SaysForPeopleWhatIsWrong) {
  const SearchSpace space =
      Space({Int("width", 1, 2000), Int("depth", 1, 2000), Categorical("optimizer", {"sgd", "adam"}), Bool("warm")});
  const LegalSettings legal(space, {Sum({{"width", 1.0}, {"depth", 1.0}}, std::nullopt, 1024.0),
                                    Forbid({{"optimizer", Values({std::string("sgd")})}, {"warm", Values({true})}}),
                                    Sum({{"width", -0.5}, {"depth", 2.0}}, -100.0, std::nullopt)});
  Parameters setting = {{"width", 1000.0}, {"depth", 30.0}, {"optimizer", std::string("sgd")}, {"warm", true}};
  EXPECT_EQ(legal.WhyNot(setting), "depth + width is 1,030, and constraints[0] allows at most 1,024");
  setting["width"] = 900.0;
  EXPECT_EQ(legal.WhyNot(setting), "constraints[1] forbids optimizer sgd with warm true");
  setting["warm"] = false;
  EXPECT_EQ(legal.WhyNot(setting), "2 depth - 0.5 width is -390, and constraints[2] allows at least -100");
  setting["width"] = 300.0;
  EXPECT_EQ(legal.WhyNot(setting), "");
}

TEST(LegalSettingsTest, EveryFaultIsNamedWithItsField) {
  const SearchSpace space = Space({Int("n", 1, 5), Float("x", 0, 1), Categorical("kind", {"a", "b"}), Bool("flag"),
                                   Vector("v", 0, 1, 2), Ordinal("size", {"s", "m"})});
  const double nan = std::nan("");
  const std::vector<std::pair<ParameterConstraint, std::string>> faults = {
      {{}, "constraints[0]: is empty"},
      {Sum({{"m", 1}}, {}, 1), "constraints[0].sum.m: is no parameter"},
      {Sum({{"kind", 1}}, {}, 1), "constraints[0].sum.kind: is no number"},
      {Sum({{"size", 1}}, {}, 1), "constraints[0].sum.size: is no number"},
      {Sum({{"flag", 1}}, {}, 1), "constraints[0].sum.flag: is no number"},
      {Sum({{"n", 0}}, {}, 1), "constraints[0].sum.n: has weight 0"},
      {Sum({{"n", nan}}, {}, 1), "constraints[0].sum.n: has weight NaN"},
      {Sum({{"n", 1}}, {}, {}), "constraints[0]: bounds nothing"},
      {Sum({{"n", 1}}, 3, 2), "constraints[0].at_least: 3 is above at_most, 2"},
      {Sum({{"n", 1}}, {}, HUGE_VAL), "constraints[0].at_most: must be finite"},
      {Sum({{"n", 1}}, nan, {}), "constraints[0].at_least: must be finite"},
      {Forbid({{"q", Values({1.0})}}), "constraints[0].forbid.q: is no parameter"},
      {Forbid({{"a b", Values({1.0})}}), "constraints[0].forbid[\"a b\"]: is no parameter"},
      {Forbid({{"kind", Values({})}}), "constraints[0].forbid.kind: names no value"},
      {Forbid({{"kind", Values({std::string("c")})}}), "constraints[0].forbid.kind: "},
      {Forbid({{"kind", Range(1, 2)}}), "constraints[0].forbid.kind: has no ranges"},
      {Forbid({{"flag", Range(0, {})}}), "constraints[0].forbid.flag: has no ranges"},
      {Forbid({{"flag", Values({1.0})}}), "constraints[0].forbid.flag: "},
      {Forbid({{"n", Values({9.0})}}), "constraints[0].forbid.n: "},
      {Forbid({{"n", Values({1.5})}}), "constraints[0].forbid.n: "},
      {Forbid({{"n", Values({2.0, 3.0, 2.0})}}), "constraints[0].forbid.n: names 2 twice"},
      {Forbid({{"n", Range(3, 2)}}), "constraints[0].forbid.n.at_least: 3 is above at_most"},
      {Forbid({{"n", Range(6, {})}}), "constraints[0].forbid.n: names a range that has no value"},
      {Forbid({{"x", Range({}, -0.5)}}), "constraints[0].forbid.x: names a range that has no value"},
      {Forbid({{"v", Values({0.5})}}), "constraints[0].forbid.v: is a vector"},
      {{.sum = {{"n", 1}}, .at_least = 1, .at_most = {}, .forbid = {{"flag", Values({true})}}},
       "has both sum and forbid"},
      {{.sum = {}, .at_least = 1, .at_most = {}, .forbid = {{"flag", Values({true})}}}, "has bounds beside forbid"},
  };
  for (const auto& [constraint, message] : faults) EXPECT_THAT(FaultsOf(space, {constraint}), HasSubstr(message));
  const ParameterConstraint good = Sum({{"n", 1}}, {}, 3);
  EXPECT_EQ(FaultsOf(space, {good, Forbid({{"kind", Values({std::string("a")})}, {"v", {}}})}).empty(), false);
  EXPECT_EQ(FaultsOf(space, {good}), "");
  EXPECT_THAT(FaultsOf(space, {good, Sum({{"x", 1}}, {}, 3), good}),
              HasSubstr("constraints[2]: is the same as constraints[0]"));
  std::vector<ParameterConstraint> many;
  for (int i = 0; i < 64; ++i) many.push_back(Sum({{"x", 1.0 + i}}, {}, 1.0));
  EXPECT_EQ(FaultsOf(space, many), "");
  many.push_back(good);
  EXPECT_THAT(FaultsOf(space, many), HasSubstr("constraints: has 65 entries; at most 64"));
}

TEST(LegalSettingsTest, AnOpenSpaceHasNoConstraints) {
  StudySpec spec;
  spec.space = Space({Float("x", 0, 1)});
  spec.metric.name = "loss";
  spec.constraints = {Sum({{"x", 1}}, {}, 0.5)};
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
  spec.open_space = true;
  EXPECT_THAT(std::string(ValidateSpec(spec).message()), HasSubstr("open_space: does not go with constraints"));
}

TEST(LegalSettingsTest, TheShareIsThatOfTheSpace) {
  const SearchSpace square = Space({Float("a", 0, 1), Float("b", 0, 1), Float("idle", 0, 1)});
  // Areas of a triangle, and of none; five deviations of 10,000 draws.
  const double share = LegalShareOf(square, {Sum({{"a", 1}, {"b", 1}}, {}, 0.8)}).share();
  EXPECT_NEAR(share, 0.32, 5 * std::sqrt(0.32 * 0.68 / 10'000));
  EXPECT_EQ(LegalShareOf(square, {Sum({{"a", 1}, {"b", 1}}, 2.1, {})}).legal, 0);
  EXPECT_EQ(LegalShareOf(square, {}).share(), 1.0);
  // The scale of a parameter decides what random settings are.
  const SearchSpace log = Space({Float("a", 1e-4, 1, Scale::kLog)});
  EXPECT_NEAR(LegalShareOf(log, {Sum({{"a", 1}}, {}, 1e-2)}).share(), 0.5, 0.025);
}

TEST(LegalSettingsTest, SamplesAreUniformOnThePolytope) {
  const SearchSpace space = Space({Float("a", 0, 1), Float("b", 0, 1)});
  const auto legal = [](double a, double b) { return a + 2 * b <= 1.7 && b - a >= -0.6; };
  const Encoding encoding(space, {Sum({{"a", 1}, {"b", 2}}, {}, 1.7), Sum({{"a", -1}, {"b", 1}}, -0.6, {})});
  constexpr int kCells = 4, kFine = 500, kSamples = 200'000;
  std::array<double, kCells * kCells> area{}, count{};
  double whole = 0.0;
  for (int i = 0; i < kCells * kFine; ++i) {
    for (int j = 0; j < kCells * kFine; ++j) {
      if (!legal((i + 0.5) / (kCells * kFine), (j + 0.5) / (kCells * kFine))) continue;
      area[static_cast<size_t>(i / kFine * kCells + j / kFine)] += 1.0;
      whole += 1.0;
    }
  }
  base::RandomStream random(5, "test");
  for (int n = 0; n < kSamples; ++n) {
    const Parameters setting = encoding.Sample(random);
    const double a = std::get<double>(setting.at("a")), b = std::get<double>(setting.at("b"));
    ASSERT_TRUE(legal(a, b));
    count[static_cast<size_t>(std::min(3, int(a * kCells)) * kCells + std::min(3, int(b * kCells)))] += 1.0;
  }
  double chi = 0.0;
  int cells = 0;
  for (size_t k = 0; k < area.size(); ++k) {
    const double expected = area[k] / whole * kSamples;
    if (expected < 5.0) continue;
    chi += (count[k] - expected) * (count[k] - expected) / expected;
    ++cells;
  }
  // Exceeded once in 10^6 by a uniform sample of at most 16 cells: the quantile of 15 degrees of freedom is 59.
  EXPECT_GT(cells, 9);
  EXPECT_LT(chi, 59.0);
}

TEST(LegalSettingsTest, WithoutConstraintsAndWithIdleOnesSamplesHaveTheSameBits) {
  base::RandomStream spaces(3, "test/spaces");
  for (int n = 0; n < 50; ++n) {
    const SearchSpace space = Space({Float("x", 0, 1), Int("k", 1, 9), Categorical("c", {"a", "b"})});
    const Encoding plain(space), idle(space, {Sum({{"x", 1}, {"k", 1}}, {}, 100.0)});
    base::RandomStream first(static_cast<uint64_t>(n), "test"), second(static_cast<uint64_t>(n), "test");
    EXPECT_EQ(plain.Sample(first), idle.Sample(second));
  }
}

TEST(LegalSettingsTest, PointsAreJudgedAsTheSettingsThatTheyDecodeTo) {
  const SearchSpace kinds =
      Space({When("size", {std::string("m"), std::string("l")}, Float("x", 1e-3, 1, Scale::kLog)),
             Ordinal("size", {"s", "m", "l"}), Vector("v", 0, 1, 3), Float("stepped", 0, 1, Scale::kLinear, 0.25),
             Int("log", 1, 100, 1, Scale::kLog), Int("fixed", 7, 7), Categorical("only", {"one"}),
             Vector("same", 2, 2, 2), When("flag", {true}, Float("y", -1, 1)), Bool("flag")});
  const Encoding encodings[] = {Encoding(Small(), {Sum({{"n", 1}, {"rank", 1}}, {}, 5.0),
                                                   Forbid({{"rank", Range(2, {})}, {"flag", Values({true})}})}),
                                Encoding(kinds, {Sum({{"x", 2}, {"v", 1}, {"stepped", -1}, {"same", 0.1}}, {}, 1.9),
                                                 Sum({{"log", 1}, {"fixed", 2}, {"y", 10}}, 16, {}),
                                                 Forbid({{"size", Values({std::string("s"), std::string("l")})},
                                                         {"stepped", Values({0.25, 0.75})},
                                                         {"only", Values({std::string("one")})},
                                                         {"fixed", Range({}, 7)}}),
                                                 Forbid({{"flag", Values({true})}, {"y", Range(0.5, {})}})})};
  for (const Encoding& encoding : encodings) {
    base::RandomStream random(7, "test");
    int legal = 0;
    for (int n = 0; n < 4000; ++n) {
      Eigen::VectorXd u(encoding.compact_dim());
      for (double& x : u) x = random.Uniform();
      EXPECT_EQ(encoding.IsLegalAt(u), encoding.IsLegal(encoding.FromCompact(u)));
      legal += encoding.IsLegalAt(u);
    }
    EXPECT_GT(legal, 800);
    EXPECT_LT(legal, 3700);
  }
}

TEST(LegalSettingsTest, ConstraintsAreAboutAFewThousandScalarsAtMost) {
  const SearchSpace space =
      Space({Vector("v", 0, 1, 1999), Float("x", 0, 1), Float("y", 0, 1), Vector("idle", 0, 1, 5000)});
  EXPECT_EQ(FaultsOf(space, {Sum({{"v", 1}, {"x", 1}}, {}, 1000.0)}), "");
  EXPECT_THAT(FaultsOf(space, {Sum({{"v", 1}, {"x", 1}}, {}, 1000.0), Sum({{"y", 1}}, {}, 0.5)}),
              HasSubstr("constraints: are about 2001 scalars together; at most 2000"));
}

}  // namespace
}  // namespace luthier::study
