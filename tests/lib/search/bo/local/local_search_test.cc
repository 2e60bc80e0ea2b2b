#include "lib/search/bo/local/local_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/bo/state_testing.h"

namespace luthier::search {
namespace {

using study::Parameters;

constexpr double kLengthscale = 0.25;

// Climbing only: given points first, then one step after another.
class Climber {
 public:
  Climber(study::SearchSpace space, std::function<double(const Parameters&)> loss)
      : encoding_(std::move(space)),
        loss_(std::move(loss)),
        lengthscales_(Eigen::VectorXd::Constant(encoding_.compact_dim(), kLengthscale)) {}

  int64_t Store(const Parameters& parameters) {
    study::HistoryTrial trial;
    trial.number = static_cast<int64_t>(history_.trials().size()) + 1;
    trial.parameters = parameters;
    history_.AddStored(trial);
    return trial.number;
  }
  void Finish(int64_t number) {
    const double value = loss_(history_.trials()[static_cast<size_t>(number - 1)].parameters);
    history_.Finish(number, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
    best_ = std::min(best_, value);
  }
  void Add(const Parameters& parameters) { Finish(Store(parameters)); }
  void AddRandom(int count, uint64_t seed) {
    base::RandomStream random(seed, "test/climb");
    for (int i = 0; i < count; ++i) Add(encoding_.Sample(random));
  }
  std::optional<LocalStep> Suggest() {
    const Observations data =
        Collect(history_, encoding_, study::Goal::kMinimize, nullptr, true, base::StopToken()).value();
    LocalSearchState state = state_;
    std::optional<LocalStep> step =
        SuggestLocalStep(data, climbs_, encoding_, lengthscales_, &state, std::nullopt, base::StopToken()).value();
    // A pure function, and the state survives as bytes.
    LocalSearchState again = *ParseBoState(BytesOf(state_), ChoicesOfGroups(1)).local;
    const std::optional<LocalStep> same =
        SuggestLocalStep(data, climbs_, encoding_, lengthscales_, &again, std::nullopt, base::StopToken()).value();
    EXPECT_EQ(BytesOf(again), BytesOf(state));
    EXPECT_EQ(same.has_value(), step.has_value());
    if (step.has_value() && same.has_value()) {
      EXPECT_EQ(same->parameters, step->parameters);
      EXPECT_EQ(same->predicted_gain, step->predicted_gain);
      EXPECT_EQ(BytesOf(same->next), BytesOf(step->next));
    }
    if (step.has_value()) {
      EXPECT_TRUE(encoding_.space().Validate(step->parameters).ok());
      EXPECT_FALSE(IsTried(data, encoding_.ToModel(step->parameters)));
      EXPECT_EQ(step->next.solved, state.solved);
      EXPECT_GE(step->predicted_gain, 0.0);
    }
    state_ = step.has_value() ? step->next : state;
    return step;
  }
  // Stores the next step, open. 0 when there is none.
  int64_t Step() {
    const std::optional<LocalStep> step = Suggest();
    if (!step.has_value()) return 0;
    const int64_t number = Store(step->parameters);
    climbs_[number] = step->next.last().site;
    return number;
  }

  const study::History& history() const { return history_; }
  const std::map<int64_t, int64_t>& climbs() const { return climbs_; }
  const study::Encoding& encoding() const { return encoding_; }
  const LocalSearchState& state() const { return state_; }
  double best() const { return best_; }
  const study::HistoryTrial& trial(int64_t number) const { return history_.trials()[static_cast<size_t>(number - 1)]; }

 private:
  study::Encoding encoding_;
  std::function<double(const Parameters&)> loss_;
  Eigen::VectorXd lengthscales_;
  study::History history_;
  std::map<int64_t, int64_t> climbs_;
  LocalSearchState state_;
  double best_ = INFINITY;
};

study::SearchSpace Plane() {
  return Space({Float("x0", -5, 10), Float("x1", 0, 15)});
}
double BraninOf(const Parameters& p) {
  return Branin(Point(p));
}

TEST(LocalSearch, FindsBraninsMinimumToTheLastDigits) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Climber climb(Plane(), BraninOf);
    climb.AddRandom(12, seed);
    for (int i = 0; i < 30; ++i) {
      const int64_t number = climb.Step();
      if (number == 0) break;
      climb.Finish(number);
    }
    EXPECT_LT(climb.best() - 0.39788735772973816, 1e-11) << seed;
  }
}

TEST(LocalSearch, ClimbsEachBasinOnce) {
  // Six-hump camel: two best minima, four others.
  const TestFunction camel = SixFunctions()[1];
  Climber climb(Space({Float("x0", -3, 3), Float("x1", -2, 2)}),
                [&](const Parameters& p) { return camel.f(Point(p)); });
  climb.AddRandom(30, 2);
  std::vector<int64_t> order;  // Sites as they came.
  std::set<int64_t> ended;
  std::set<std::pair<int, int>> tops;
  for (int i = 0; i < 150; ++i) {
    const int64_t number = climb.Step();
    for (const int64_t site : climb.state().solved) ended.insert(site);
    if (number == 0) break;
    const int64_t site = climb.climbs().at(number);
    EXPECT_FALSE(ended.contains(site)) << "climbed again";
    if (std::find(order.begin(), order.end(), site) == order.end()) {
      order.push_back(site);
      // A new climb begins apart: nothing better within a lengthscale, ended climbs' tops included.
      const Eigen::VectorXd start = climb.encoding().ToCompact(climb.trial(site).parameters);
      const double value = *climb.trial(site).value;
      if (order.size() > 1) {
        for (const study::HistoryTrial& trial : climb.history().trials()) {
          if (!trial.value || *trial.value >= value) continue;
          EXPECT_GE((climb.encoding().ToCompact(trial.parameters) - start).norm(), kLengthscale - 1e-12);
        }
      }
    }
    climb.Finish(number);
  }
  EXPECT_GE(order.size(), 2u);
  EXPECT_LT(climb.best() - camel.minimum, 1e-11);
  // In the end there is nothing to climb.
  EXPECT_LT(climb.history().trials().size(), 180u);
  // Both of the best minima were found.
  int best_ends = 0;
  for (const double sign : {-1.0, 1.0}) {
    for (const study::HistoryTrial& trial : climb.history().trials()) {
      const std::vector<double> x = Point(trial.parameters);
      if (std::hypot(x[0] - sign * 0.08984201, x[1] + sign * 0.7126564) < 1e-4) {
        ++best_ends;
        break;
      }
    }
  }
  EXPECT_EQ(best_ends, 2);
}

TEST(LocalSearch, DiscreteParametersKeepTheirValues) {
  const study::SearchSpace space =
      Space({Float("x", 0, 1), Float("y", 1e-4, 1, study::Scale::kLog), Int("n", 1, 9), Categorical("c", {"a", "b"}),
             When("c", {std::string("b")}, Float("z", 0, 1))});
  auto loss = [](const Parameters& p) {
    double value = std::pow(Number(p, "x") - 0.4, 2) + 0.1 * std::pow(std::log10(Number(p, "y")) + 2, 2) +
                   0.05 * std::abs(Number(p, "n") - 4);
    if (p.contains("z")) value += std::pow(Number(p, "z") - 0.6, 2) - 0.2;
    return value;
  };
  Climber climb(space, loss);
  climb.AddRandom(25, 4);
  int steps = 0;
  for (int i = 0; i < 40; ++i) {
    const int64_t number = climb.Step();
    if (number == 0) break;
    // The best setting of its climb before this step.
    const int64_t site = climb.climbs().at(number);
    const study::HistoryTrial* best = nullptr;
    for (const study::HistoryTrial& trial : climb.history().trials()) {
      const auto of = climb.climbs().find(trial.number);
      if ((of == climb.climbs().end() ? trial.number : of->second) != site || !trial.value) continue;
      if (best == nullptr || *trial.value < *best->value) best = &trial;
    }
    ASSERT_NE(best, nullptr);
    const Parameters& step = climb.trial(number).parameters;
    EXPECT_EQ(step.at("n"), best->parameters.at("n"));
    EXPECT_EQ(step.at("c"), best->parameters.at("c"));
    EXPECT_EQ(step.contains("z"), best->parameters.contains("z"));
    climb.Finish(number);
    ++steps;
  }
  EXPECT_GE(steps, 10);
  // At least the first climb, from the best setting of the start, came to its end.
  const study::HistoryTrial* first = nullptr;
  for (int64_t number = 1; number <= 25; ++number) {
    if (first == nullptr || *climb.trial(number).value < *first->value) first = &climb.trial(number);
  }
  const double end =
      0.05 * std::abs(Number(first->parameters, "n") - 4) - (first->parameters.contains("z") ? 0.2 : 0.0);
  EXPECT_LT(climb.best(), end + 1e-9);
}

TEST(LocalSearch, LabelsAreSearchedApart) {
  // Each label has a valley of its own; results of one say nothing about another.
  Climber climb(Space({Float("x", 0, 1), Float("y", 0, 1), Categorical("c", {"a", "b", "d"})}),
                [](const Parameters& p) {
                  const std::string& c = std::get<std::string>(p.at("c"));
                  const double at = c == "a" ? 0.3 : c == "b" ? 0.5 : 0.7, sign = c == "b" ? -1.0 : 1.0;
                  const double x = Number(p, "x") - at, y = Number(p, "y") - at;
                  return (c == "a" ? 0.0 : 8.0) + sign * (std::cosh(3.0 * x + y) + std::cosh(2.0 * y));
                });
  climb.AddRandom(45, 3);
  for (int i = 0; i < 16; ++i) {
    const int64_t number = climb.Step();
    if (number == 0) break;
    climb.Finish(number);
  }
  RecordProperty("regret", std::to_string(climb.best() - 2.0));
  EXPECT_GE(climb.best(), 2.0) << "the best is with label a";
  EXPECT_LT(climb.best() - 2.0, 1e-9);
}

TEST(LocalSearch, OpenStepsAreNotRepeated) {
  Climber climb(Plane(), BraninOf);
  climb.AddRandom(10, 3);
  base::RandomStream random(1, "test/open");
  std::vector<int64_t> open;
  std::set<Parameters> seen;
  int steps = 0;
  for (int i = 0; i < 40; ++i) {
    if (open.size() < 5) {
      const int64_t number = climb.Step();
      if (number > 0) {
        EXPECT_TRUE(seen.insert(climb.trial(number).parameters).second);
        open.push_back(number);
        ++steps;
        continue;
      }
    }
    if (open.empty()) break;
    const size_t which = random.UniformInt(open.size());
    climb.Finish(open[which]);
    open.erase(open.begin() + static_cast<long>(which));
  }
  EXPECT_GE(steps, 15);
}

TEST(LocalSearch, UnsuitableSpacesHaveNoSteps) {
  auto zero = [](const Parameters&) { return 0.0; };
  Climber none(Plane(), BraninOf);
  EXPECT_EQ(none.Step(), 0);
  none.AddRandom(1, 1);
  EXPECT_EQ(none.Step(), 0);
  Climber discrete(Space({Int("n", 1, 9), Categorical("c", {"a", "b"})}), zero);
  discrete.AddRandom(6, 1);
  EXPECT_EQ(discrete.Step(), 0);
  std::vector<study::ParameterSpec> many;
  for (int i = 0; i < 51; ++i) many.push_back(Float("x" + std::to_string(i), 0, 1));
  Climber wide(Space(many), zero);
  wide.AddRandom(4, 1);
  EXPECT_EQ(wide.Step(), 0);
  // A plateau, duplicates, absurd values: steps or none, but never outside (Suggest checks).
  for (const double scale : {0.0, 1e300, 1e-310}) {
    Climber odd(Space({Float("x", 0, 1), Float("y", 0, 1)}),
                [&](const Parameters& p) { return scale * std::cos(9 * Number(p, "x")); });
    odd.AddRandom(5, 2);
    for (int i = 0; i < 3; ++i) odd.Add({{"x", 0.5}, {"y", 0.5}});
    for (int i = 0; i < 12; ++i) {
      const int64_t number = odd.Step();
      if (number == 0) break;
      odd.Finish(number);
    }
  }
}

TEST(LocalSearchState, DamagedTextIsNoState) {
  for (const char* bad : {"", ",", ",,,", "nonsense", "-1,,", "1,x,", "1,0,", "1,-4,", "1,2,nan", "1,2, 1 2 3",
                          "1,2, 1 2 3 4 5 6", "1,2, inf 0 0 0 0", "99999999999999999999,,", "1,2, -1 0 0 0 0 1 1 1"}) {
    EXPECT_FALSE(ReadLegacyLocal(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace luthier::search
