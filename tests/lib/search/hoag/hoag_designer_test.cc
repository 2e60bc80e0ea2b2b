#include "lib/search/hoag/hoag_designer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/search/hoag/hoag_rule.h"
#include "lib/search/registry.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using study::Float;
using study::HistoryTrial;
using study::Space;
using study::TrialState;
using study::Vector;
using ::testing::HasSubstr;
using Vec = std::vector<double>;

study::StudySpec Spec(study::SearchSpace space, study::HoagOptions options = {}) {
  study::StudySpec spec;
  spec.space = std::move(space);
  spec.algorithm = options;
  spec.metric.name = "loss";
  spec.seed = 5;
  spec.budget.max_trials = 1000;
  return spec;
}

// Chain and number of a suggestion.
std::pair<int, int> PlaceOf(const std::string& designer_state) {
  const std::optional<HoagState> first = DecodeState<HoagState>(kHoagStateKind, designer_state);
  const HoagState state =
      first ? *first : DecodeState<HoagState>(kHoagCurvatureStateKind, designer_state).value_or(HoagState{-1, -1});
  return {state.chain, state.evaluation};
}

// A study that is driven by hand.
struct Driver {
  explicit Driver(study::StudySpec s) : spec(std::move(s)) {}

  // A new object each time: nothing may be kept in one.
  absl::StatusOr<Suggestion> Ask() {
    const auto designer = CreateDesigner(spec);
    absl::StatusOr<Suggestion> suggestion = designer->Suggest(history, asks, {});
    if (!suggestion.ok()) return suggestion;
    HistoryTrial trial;
    trial.number = static_cast<int64_t>(history.trials().size()) + 1;
    trial.ask_index = asks++;
    trial.parameters = suggestion->parameters;
    trial.designer_state = suggestion->designer_state;
    if (kind != nullptr) {
      const auto [chain, evaluation] = PlaceOf(trial.designer_state);
      trial.designer_state = EncodeState(kind, HoagState{chain, evaluation});
    }
    history.AddStored(trial);
    return suggestion;
  }
  void Tell(int64_t number, double value, Vec gradient) {
    study::Gradient g;
    g.values = std::move(gradient);
    history.Finish(number, TrialState::kComplete, value, g, std::nullopt);
  }
  int64_t last() const { return static_cast<int64_t>(history.trials().size()); }

  study::StudySpec spec;
  study::History history;
  uint64_t asks = 0;
  const char* kind = nullptr;  // Kind of the states that trials get, if not that of the suggestion.
};

// Mean over k of (ln l2_k - target_k)^2, and its gradient in user units.
double Bowl(const study::Parameters& p, Vec* gradient) {
  const Vec& l2 = std::get<Vec>(p.at("l2"));
  double sum = 0.0;
  gradient->clear();
  for (size_t k = 0; k < l2.size(); ++k) {
    const double off = std::log(l2[k]) - (static_cast<double>(k) - 1.0);
    sum += off * off / static_cast<double>(l2.size());
    gradient->push_back(2.0 * off / static_cast<double>(l2.size()) / l2[k]);
  }
  return sum;
}

study::SearchSpace Strengths(int count) {
  return Space({study::WithDefault(1.0, Vector("l2", 1e-4, 1e4, count, study::Scale::kLog))});
}

TEST(HoagDesignerTest, DescendsFromTheDefaults) {
  Driver driver(Spec(Strengths(5)));
  double best = INFINITY;
  for (int k = 0; k < 12; ++k) {
    const Suggestion suggestion = driver.Ask().value();
    if (k == 0) {
      EXPECT_EQ(suggestion.parameters.at("l2"), study::ParameterValue(Vec(5, 1.0)));
      EXPECT_EQ(suggestion.origin, "hoag_start");
      EXPECT_DOUBLE_EQ(*suggestion.tolerance, 0.1);
    }
    Vec gradient;
    const double value = Bowl(suggestion.parameters, &gradient);
    best = std::min(best, value);
    driver.Tell(driver.last(), value, gradient);
  }
  EXPECT_LT(best, 1e-6);
}

// Returns what a study suggests whose trials carry states of `kind`, with Bowl's results.
std::vector<Vec> Path(const char* kind, study::HoagOptions options, int trials, std::string* last_kind) {
  Driver driver(Spec(Strengths(3), options));
  driver.kind = kind;
  std::vector<Vec> path;
  for (int k = 0; k < trials; ++k) {
    const Suggestion suggestion = driver.Ask().value();
    path.push_back(std::get<Vec>(suggestion.parameters.at("l2")));
    *last_kind = DecodeState<HoagState>(kHoagStateKind, suggestion.designer_state) ? "hoag/1" : "hoag/2";
    Vec gradient;
    const double value = Bowl(suggestion.parameters, &gradient);
    driver.Tell(driver.last(), value, gradient);
  }
  return path;
}

TEST(HoagDesignerTest, AStudyGoesOnByTheVersionItBeganWith) {
  std::string kind;
  const std::vector<Vec> old = Path(kHoagStateKind, {}, 12, &kind);
  EXPECT_EQ(kind, "hoag/1");
  // The paper's rule, by hand: coordinates are ln l2 - ln 1e-4.
  const double base = std::log(1e-4), width = std::log(1e4) - base;
  HoagChain chain(study::HoagOptions(), Eigen::VectorXd::Constant(3, -base), Eigen::VectorXd::Zero(3),
                  Eigen::VectorXd::Constant(3, width), HoagVersion::kStepSize);
  int compared = 0;
  for (const Vec& l2 : old) {
    if (chain.ended()) break;  // The next chain begins elsewhere.
    ++compared;
    HoagResult result{.value = 0.0, .gradient = Eigen::VectorXd(3), .tolerance = 0.0, .outer_gradient_norm = 0.0};
    Vec gradient;
    result.value = Bowl({{"l2", l2}}, &gradient);
    for (int j = 0; j < 3; ++j) {
      EXPECT_NEAR(std::log(l2[static_cast<size_t>(j)]) - base, chain.point()[j], 1e-9);
      result.gradient[j] = gradient[static_cast<size_t>(j)] * l2[static_cast<size_t>(j)];
    }
    chain.Tell(result);
  }
  EXPECT_GE(compared, 6);
  const std::vector<Vec> now = Path(kHoagCurvatureStateKind, {}, 12, &kind);
  EXPECT_EQ(kind, "hoag/2");
  EXPECT_NE(old, now);
  // Backtracking has one version.
  (void)Path(kHoagStateKind, study::HoagOptionsFor(study::HoagPreset::kProjectedGradient), 3, &kind);
  EXPECT_EQ(kind, "hoag/1");
  const auto version = [](study::HoagPreset preset) {
    return VersionOf(Spec(Strengths(3), study::HoagOptionsFor(preset)));
  };
  EXPECT_EQ(version(study::HoagPreset::kHoag), 2);
  EXPECT_EQ(version(study::HoagPreset::kProjectedGradient), 1);
}

TEST(HoagDesignerTest, MaximizesToo) {
  study::StudySpec spec = Spec(Strengths(3));
  spec.metric.goal = study::Goal::kMaximize;
  Driver driver(spec);
  double best = -INFINITY;
  for (int k = 0; k < 80; ++k) {
    const Suggestion suggestion = driver.Ask().value();
    Vec gradient;
    const double value = -Bowl(suggestion.parameters, &gradient);
    for (double& g : gradient) g = -g;
    best = std::max(best, value);
    driver.Tell(driver.last(), value, gradient);
  }
  EXPECT_GT(best, -1e-5);
}

TEST(HoagDesignerTest, AChainWaitsForItsResult) {
  Driver driver(Spec(Strengths(2)));
  ASSERT_TRUE(driver.Ask().ok());
  const absl::Status waits = driver.Ask().status();
  EXPECT_EQ(base::GetReason(waits), base::reason::kAwaitingResults);
  // A cancelled trial says nothing: the same setting again.
  driver.history.Finish(1, TrialState::kCancelled, std::nullopt, std::nullopt, std::nullopt);
  const Suggestion again = driver.Ask().value();
  EXPECT_EQ(again.parameters, driver.history.trials()[0].parameters);
  EXPECT_EQ(PlaceOf(again.designer_state), std::pair(0, 1));
  // Nor does a lost one.
  driver.history.Finish(2, TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kInfra);
  EXPECT_EQ(PlaceOf(driver.Ask()->designer_state), std::pair(0, 1));
  Vec gradient;
  const double value = Bowl(again.parameters, &gradient);
  driver.Tell(3, value, gradient);
  EXPECT_EQ(PlaceOf(driver.Ask()->designer_state), std::pair(0, 2));
}

TEST(HoagDesignerTest, FailuresShortenTheStepAndATrialWithoutGradientEndsAFirst) {
  Driver driver(Spec(Strengths(2)));
  const Suggestion first = driver.Ask().value();
  Vec gradient;
  const double value = Bowl(first.parameters, &gradient);
  driver.Tell(1, value, gradient);
  const Suggestion second = driver.Ask().value();
  driver.history.Finish(2, TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
  const Suggestion third = driver.Ask().value();
  const auto moved = [&](const Suggestion& s) { return std::abs(std::log(std::get<Vec>(s.parameters.at("l2"))[0])); };
  EXPECT_NEAR(moved(third), moved(second) / 2, 1e-9);
  Driver without(Spec(Strengths(2)));
  ASSERT_TRUE(without.Ask().ok());
  without.history.Finish(1, TrialState::kComplete, 1.0, std::nullopt, std::nullopt);
  const Suggestion next = without.Ask().value();
  EXPECT_EQ(PlaceOf(next.designer_state), std::pair(1, 1));
  EXPECT_NE(next.parameters, without.history.trials()[0].parameters);
}

TEST(HoagDesignerTest, SeveralChainsRunSideBySideAndTheWorseHalfEnds) {
  study::HoagOptions options;
  options.chains = 4;
  Driver driver(Spec(Strengths(3), options));
  driver.kind = kHoagStateKind;  // By curvature the chains would have ended before.
  std::map<int, int> asked;
  for (int k = 0; k < 4; ++k) ASSERT_TRUE(driver.Ask().ok());
  EXPECT_EQ(base::GetReason(driver.Ask().status()), base::reason::kAwaitingResults);
  for (int64_t number = 1; number <= 120; ++number) {
    Vec gradient;
    const HistoryTrial& trial = driver.history.trials()[static_cast<size_t>(number - 1)];
    const int chain = PlaceOf(trial.designer_state).first;
    ++asked[chain];
    // Chain 2 is the worst by far, chain 1 the best.
    const double value = Bowl(trial.parameters, &gradient) + (chain == 2 ? 50.0 : chain == 1 ? -50.0 : 0.0);
    driver.Tell(number, value, gradient);
    (void)driver.Ask();
  }
  EXPECT_LE(asked[2], 9);
  EXPECT_GT(asked[1], 2 * asked[2]);
}

TEST(HoagDesignerTest, OtherParametersStayWithinAChain) {
  study::SearchSpace space = Space({study::Categorical("kind", {"a", "b"}), study::Int("n", 1, 9),
                                    Vector("l2", 1e-2, 1e2, 2, study::Scale::kLog), Float("x", -3, 3),
                                    Float("share", 0.01, 0.99, study::Scale::kLogit)});
  Driver driver(Spec(space));
  const Suggestion first = driver.Ask().value();
  driver.Tell(1, 1.0, {1, 1, 0.1, 2});
  const Suggestion second = driver.Ask().value();
  for (const char* name : {"kind", "n"}) EXPECT_EQ(second.parameters.at(name), first.parameters.at(name));
  for (const char* name : {"l2", "x", "share"})
    EXPECT_NE(second.parameters.at(name), first.parameters.at(name)) << name;
  EXPECT_TRUE(space.Validate(second.parameters).ok());
}

TEST(HoagDesignerTest, WrongStudiesSayWhy) {
  const auto message = [](const study::StudySpec& spec) { return std::string(Validate(spec).message()); };
  EXPECT_EQ(message(Spec(Strengths(2000))), "");
  EXPECT_THAT(message(Spec(Space({study::Int("n", 1, 5)}))), HasSubstr("the space has no float without step"));
  study::StudySpec reproducible = Spec(Strengths(2));
  reproducible.reproducible = true;
  reproducible.budget.max_parallel = 2;
  EXPECT_THAT(message(reproducible), HasSubstr("budget.max_parallel: is 2"));
  study::StudySpec unrolled = Spec(Strengths(2), study::HoagOptionsFor(study::HoagPreset::kIterdiff));
  EXPECT_EQ(message(unrolled), "");  // An external objective may report anything.
  study::BuiltinObjective objective{.model = "logistic", .data = "a.csv", .split = {}, .options = {}};
  unrolled.objective = objective;
  EXPECT_THAT(message(unrolled), HasSubstr("objective.builtin.options.unroll: is needed by iterdiff"));
  objective.options["unroll"] = std::string("lbfgs");
  unrolled.objective = objective;
  EXPECT_EQ(message(unrolled), "");
  study::HoagOptions options;
  options.chains = 0;
  options.first_tolerance = -1;
  options.stop = 1;
  const std::string all = message(Spec(Strengths(2), options));
  for (const char* field : {"chains", "expert.first_tolerance", "expert.stop"}) {
    EXPECT_THAT(all, HasSubstr(std::string("algorithm.hoag.") + field));
  }
}

}  // namespace
}  // namespace luthier::search
