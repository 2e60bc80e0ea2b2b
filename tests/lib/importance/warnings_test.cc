#include "lib/importance/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/study/encoding.h"
#include "tests/lib/study/builders.h"

namespace luthier::importance {
namespace {

using namespace study;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Function = std::function<double(const Parameters&)>;

double At(const Parameters& p, const std::string& name) {
  return std::get<double>(p.at(name));
}

SearchSpace Box(int d) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < d; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  return Space(parameters);
}

// `n` random settings of the space, moved by `move`.
std::vector<Observation> Draw(const SearchSpace& space, int n, const Function& f,
                              const std::function<void(int, Parameters*)>& move = nullptr, uint64_t seed = 1) {
  const Encoding encoding(space);
  base::RandomStream random(seed, "test/warnings");
  std::vector<Observation> observations;
  for (int i = 0; i < n; ++i) {
    Parameters p = encoding.Sample(random);
    if (move) move(i, &p);
    observations.push_back({p, f(p)});
  }
  return observations;
}

std::vector<std::string> WarningsOf(const SearchSpace& space, const std::vector<Observation>& observations,
                                    const EndedTrials& ended = {}) {
  const absl::StatusOr<Importance> result = Compute(space, Goal::kMinimize, observations, {.ended = ended});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->warnings : std::vector<std::string>();
}

double Slope(const Parameters& p) {
  return 3.0 * At(p, "x0") + At(p, "x1");
}

TEST(WarningsTest, ARandomSearchOfAClearFunctionHasNone) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_THAT(WarningsOf(Box(4), Draw(Box(4), 100, Slope, nullptr, seed), {100, 10, 0}), IsEmpty()) << seed;
  }
}

// Whatever kinds of parameters there are, chance does not look like a search that has converged.
TEST(WarningsTest, RandomTrialsOfEveryKindOfParameterAreNotAlike) {
  const SearchSpace space =
      Space({Float("lr", 1e-5, 1, Scale::kLog), Int("units", 1, 1024, 1, Scale::kLog), Int("few", 0, 2),
             Categorical("kernel", Labels(3)), Bool("bias"), Ordinal("size", {"s", "m"}), Float("fixed", 2, 2),
             When("kernel", {"v1"}, Float("degree", 0, 1))});
  const auto f = [](const Parameters& p) { return std::log(At(p, "lr")); };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const std::string& warning : WarningsOf(space, Draw(space, 80, f, nullptr, seed))) {
      EXPECT_THAT(warning, Not(HasSubstr("alike"))) << seed;
    }
  }
}

TEST(WarningsTest, NoiseIsNotPredicted) {
  base::RandomStream random(8, "test/noise");
  const std::vector<std::string> warnings =
      WarningsOf(Box(3), Draw(Box(3), 200, [&](const Parameters&) { return random.Normal(); }));
  ASSERT_FALSE(warnings.empty());
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("The shares say little"), HasSubstr("predicts 0 %")));
}

TEST(WarningsTest, TenTrialsForEachParameterAreEnoughAndNineAreFew) {
  const auto sum = [](const Parameters& p) { return At(p, "x0"); };
  const auto few = [&](int n) {
    const std::vector<std::string> warnings = WarningsOf(Box(12), Draw(Box(12), n, sum));
    return std::count_if(warnings.begin(), warnings.end(), [&](const std::string& w) {
      return absl::StartsWith(w, absl::StrCat(n, " trials are few for 12 parameters"));
    });
  };
  EXPECT_EQ(few(120), 0);
  EXPECT_EQ(few(119), 1);
}

TEST(WarningsTest, AParameterThatHardlyVariedIsNamedWithItsTrials) {
  // 90 of 100 trials have x0 in [0.3, 0.38]; the others are spread by hand where nobody else is.
  const auto move = [](int i, Parameters* p) { (*p)["x0"] = i < 90 ? 0.3 + 0.08 * i / 90.0 : 0.5 + 0.05 * (i - 90); };
  const std::vector<std::string> warnings = WarningsOf(Box(3), Draw(Box(3), 100, Slope, move), {100, 0, 0});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0],
              AllOf(HasSubstr("\"x0\" hardly varied, 90 of 100 trials have it within a tenth of its range"),
                    Not(HasSubstr("x1")), HasSubstr("random or sobol")));
}

TEST(WarningsTest, SeveralParametersThatHardlyVariedAreOneWarning) {
  const auto move = [](int i, Parameters* p) {
    if (i % 5 == 0) return;
    for (const char* name : {"x0", "x1", "x2", "x3", "x4"}) (*p)[name] = 0.7 + 0.05 * At(*p, name);
  };
  const std::vector<std::string> warnings = WarningsOf(Box(6), Draw(Box(6), 200, Slope, move));
  ASSERT_FALSE(warnings.empty());
  std::string alike;
  for (const std::string& warning : warnings) {
    if (absl::StrContains(warning, "alike")) alike = warning;
  }
  EXPECT_THAT(alike, HasSubstr("\"x0\", \"x1\", \"x2\" and 2 more hardly varied, at least 16"));
  EXPECT_THAT(alike, HasSubstr("of 200 trials have each of them"));
}

TEST(WarningsTest, ALabelThatNearlyAllTrialsHaveHardlyVaries) {
  const SearchSpace space = Space({Categorical("kernel", Labels(3)), Float("x0", 0, 1), Float("x1", 0, 1)});
  const auto move = [](int i, Parameters* p) { (*p)["kernel"] = std::string(i % 10 == 0 ? "v1" : "v2"); };
  EXPECT_THAT(WarningsOf(space, Draw(space, 100, Slope, move)),
              ElementsAre(HasSubstr("\"kernel\" hardly varied, 90 of 100 trials")));
}

// A parameter is judged by the trials that have it.
TEST(WarningsTest, AConditionalParameterIsJudgedWhereItExists) {
  const SearchSpace space = Space({Categorical("optimizer", {"sgd", "adam"}), Float("x0", 0, 1), Float("x1", 0, 1),
                                   When("optimizer", {"sgd"}, Float("momentum", 0, 1))});
  const auto move = [](int i, Parameters* p) {
    p->erase("momentum");
    (*p)["optimizer"] = std::string(i % 2 == 0 ? "sgd" : "adam");
    if (i % 2 == 0) (*p)["momentum"] = 0.9 + 1e-3 * (i % 9);
  };
  EXPECT_THAT(WarningsOf(space, Draw(space, 100, Slope, move)),
              ElementsAre(HasSubstr("\"momentum\" hardly varied, 50 of 50 trials")));
}

// No parameter by itself is stuck, but all of them are in a corner.
TEST(WarningsTest, TrialsThatCrowdAreAlike) {
  const auto move = [](int i, Parameters* p) {
    if (i % 6 == 0) return;
    for (int j = 0; j < 8; ++j) (*p)[absl::StrCat("x", j)] = 0.25 * At(*p, absl::StrCat("x", j));
  };
  EXPECT_THAT(WarningsOf(Box(8), Draw(Box(8), 300, Slope, move)),
              ElementsAre(AllOf(HasSubstr("much alike: three quarters of them lie within 2"),
                                HasSubstr("on the average of 8"))));
}

TEST(WarningsTest, AnOrderThatTheIntervalsLeaveOpenIsNotKnown) {
  // Two parameters that matter alike, at few trials: their intervals are wide.
  const auto f = [](const Parameters& p) { return At(p, "x0") + At(p, "x1"); };
  const std::vector<std::string> open = WarningsOf(Box(2), Draw(Box(2), 30, f));
  EXPECT_THAT(open, ElementsAre(AllOf(HasSubstr("Which parameter matters most is not known"), HasSubstr("\"x0\""),
                                      HasSubstr("\"x1\""))));
  // With many trials the shares are known, and equal: that is an answer.
  EXPECT_THAT(WarningsOf(Box(2), Draw(Box(2), 3000, f)), IsEmpty());
}

TEST(WarningsTest, TrialsThatFailedOrWerePrunedAreCounted) {
  const std::vector<Observation> observations = Draw(Box(4), 100, Slope);
  EXPECT_THAT(WarningsOf(Box(4), observations, {100, 20, 20}), IsEmpty());
  EXPECT_THAT(
      WarningsOf(Box(4), observations, {100, 20, 30}),
      ElementsAre(HasSubstr("50 of 150 trials that ended are left out, 20 that failed and 30 that were pruned")));
}

TEST(WarningsTest, TheWeightiestComesFirst) {
  base::RandomStream random(3, "test/order");
  const auto move = [](int, Parameters* p) { (*p)["x0"] = 0.5; };
  const std::vector<std::string> warnings =
      WarningsOf(Box(4), Draw(Box(4), 30, [&](const Parameters&) { return random.Normal(); }, move), {30, 100, 0});
  ASSERT_GE(warnings.size(), 4u);
  EXPECT_THAT(warnings[0], HasSubstr("The shares say little"));
  EXPECT_THAT(warnings[1], HasSubstr("30 trials are few for 4 parameters"));
  EXPECT_THAT(warnings[2], HasSubstr("much alike"));
  EXPECT_THAT(warnings.back(), HasSubstr("left out"));
}

}  // namespace
}  // namespace luthier::importance
