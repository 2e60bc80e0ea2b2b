#include "lib/search/bo/local/border_step.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/turns/bo_state.h"
#include "tests/lib/search/bo/state_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A problem in user units: the value to minimise, then metrics with bounds.
struct Problem {
  std::string name;
  std::vector<double> low, high;
  std::function<std::vector<double>(const VectorXd& x)> f;
  std::vector<std::pair<double, double>> bounds;  // Of the metrics.
  double least = 0.0;
  int evaluations = 0;  // After which the value is within 1e-9 of the least.
};

// Problems of Hock & Schittkowski 1981, "Test examples for nonlinear programming codes", with their published optima.
std::vector<Problem> HockSchittkowski() {
  return {
      {"HS12",
       {-5, -5},
       {5, 5},
       [](const VectorXd& x) {
         return std::vector<double>{0.5 * x(0) * x(0) + x(1) * x(1) - x(0) * x(1) - 7 * x(0) - 7 * x(1),
                                    4 * x(0) * x(0) + x(1) * x(1)};
       },
       {{-kInfinity, 25.0}},
       -30.0,
       25},
      {"HS29",
       {0, 0, 0},
       {8, 6, 4},
       [](const VectorXd& x) {
         return std::vector<double>{-x(0) * x(1) * x(2), 48 - x(0) * x(0) - 2 * x(1) * x(1) - 4 * x(2) * x(2)};
       },
       {{0.0, kInfinity}},
       -16 * std::sqrt(2.0),
       40},
      {"HS36",
       {0, 0, 0},
       {20, 11, 42},
       [](const VectorXd& x) { return std::vector<double>{-x(0) * x(1) * x(2), x(0) + 2 * x(1) + 2 * x(2)}; },
       {{-kInfinity, 72.0}},
       -3300.0,
       40},
      {"HS43",
       {-3, -3, -3, -3},
       {3, 3, 3, 3},
       [](const VectorXd& x) {
         const double a = x(0), b = x(1), c = x(2), d = x(3);
         return std::vector<double>{a * a + b * b + 2 * c * c + d * d - 5 * a - 5 * b - 21 * c + 7 * d,
                                    a * a + b * b + c * c + d * d + a - b + c - d,
                                    a * a + 2 * b * b + c * c + 2 * d * d - a - d,
                                    2 * a * a + b * b + c * c + 2 * a - b - d};
       },
       {{-kInfinity, 8.0}, {-kInfinity, 10.0}, {-kInfinity, 5.0}},
       -44.0,
       50},
  };
}

struct BorderRun {
  const Problem& problem;
  BorderData data;
  BorderState state;
  int feasible_steps = 0;

  explicit BorderRun(const Problem& of) : problem(of) {
    for (const auto& [lower, upper] : problem.bounds) data.metrics.push_back({VectorXd(), lower, upper, 1.0});
  }
  Index dim() const { return static_cast<Index>(problem.low.size()); }
  void Add(const VectorXd& u) {
    VectorXd x(dim());
    for (Index j = 0; j < dim(); ++j) {
      const size_t k = static_cast<size_t>(j);
      x(j) = problem.low[k] + u(j) * (problem.high[k] - problem.low[k]);
    }
    const std::vector<double> values = problem.f(x);
    const Index row = data.points.rows();
    data.points.conservativeResize(row + 1, dim());
    data.points.row(row) = u.transpose();
    data.scores.conservativeResize(row + 1);
    data.scores(row) = -values[0];
    for (size_t j = 0; j < data.metrics.size(); ++j) {
      data.metrics[j].values.conservativeResize(row + 1);
      data.metrics[j].values(row) = values[j + 1];
    }
  }
  void Start(int points, uint64_t seed) {
    const math::SobolSequence sobol(static_cast<int>(dim()), seed, "border step test");
    for (int i = 0; i < points; ++i) Add(sobol.Point(static_cast<uint64_t>(i)));
  }
  // Takes a step; returns false once there is none.
  bool Step() {
    const auto step = SuggestBorderStep(data, state, base::StopToken());
    EXPECT_TRUE(step.ok()) << step.status();
    if (!step.ok() || !step->has_value() || (*step)->kind == TrustRegionStepKind::kConverged) return false;
    EXPECT_TRUE((*step)->point.allFinite());
    EXPECT_GE((*step)->point.minCoeff(), 0.0);
    EXPECT_LE((*step)->point.maxCoeff(), 1.0);
    EXPECT_GE((*step)->predicted_gain, 0.0);
    state = (*step)->next;
    Add((*step)->point);
    feasible_steps += BorderViolations(data)(data.points.rows() - 1) == 0.0 ? 1 : 0;
    return true;
  }
  double Best() const {
    const VectorXd violations = BorderViolations(data);
    double best = kInfinity;
    for (Index i = 0; i < violations.size(); ++i) {
      if (violations(i) == 0.0) best = std::min(best, -data.scores(i));
    }
    return best;
  }
};

TEST(BorderStep, FindsPublishedOptimaOnBoundsToNineDigits) {
  for (const Problem& problem : HockSchittkowski()) {
    for (const uint64_t seed : {1, 2, 3}) {
      BorderRun run(problem);
      run.Start(2 * (static_cast<int>(run.dim()) + 1), seed);
      while (run.data.points.rows() < problem.evaluations && run.Step()) {
      }
      EXPECT_LT(run.Best() - problem.least, 1e-9 * std::abs(problem.least)) << problem.name << " seed " << seed;
      EXPECT_GT(run.Best() - problem.least, -1e-12 * std::abs(problem.least)) << problem.name;
    }
  }
}

TEST(BorderStep, ComesFromFarBeyondTheBounds) {
  const Problem problem = HockSchittkowski()[0];
  BorderRun run(problem);
  for (const double x : {0.0, 0.04, 0.08}) {
    for (const double y : {1.0, 0.97}) run.Add(VectorXd{{x, y}});
  }
  ASSERT_GT(BorderViolations(run.data).minCoeff(), 0.0);
  while (run.data.points.rows() < 35 && run.Step()) {
  }
  EXPECT_LT(run.Best() - problem.least, 1e-8);
}

TEST(BorderStep, GoesToTheLeastViolationWhereNothingIsFeasible) {
  // (x - 0.2)^2 + y at most -1, on the unit square: least at (0.2, 0).
  const Problem problem{
      "none",
      {0, 0},
      {1, 1},
      [](const VectorXd& x) { return std::vector<double>{-x(0), (x(0) - 0.2) * (x(0) - 0.2) + x(1)}; },
      {{-kInfinity, -1.0}},
      0.0,
      0};
  BorderRun run(problem);
  run.Start(6, 4);
  while (run.data.points.rows() < 30 && run.Step()) {
  }
  EXPECT_LT(BorderViolations(run.data).minCoeff(), 1.0 + 1e-6);
}

TEST(BorderStep, KeepsBothBoundsOfAMetric) {
  const Problem problem{
      "band",         {0, 0}, {1, 1}, [](const VectorXd& x) {
                          return std::vector<double>{x(0) + x(1), x(0) * x(1)}; },
      {{0.09, 0.16}}, 0.6,    0};
  BorderRun run(problem);
  run.Start(6, 5);
  while (run.data.points.rows() < 30 && run.Step()) {
  }
  EXPECT_NEAR(run.Best(), 0.6, 1e-9);
}

TEST(BorderStep, APendingStepIsNotSuggestedAgain) {
  const Problem problem = HockSchittkowski()[0];
  BorderRun run(problem);
  run.Start(8, 6);
  const auto first = SuggestBorderStep(run.data, run.state, base::StopToken());
  ASSERT_TRUE(first.ok() && first->has_value());
  run.data.pending = (*first)->point.transpose();
  run.state = (*first)->next;
  const auto second = SuggestBorderStep(run.data, run.state, base::StopToken());
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_GT(((*second)->point - (*first)->point).cwiseAbs().maxCoeff(), 1e-6);
}

TEST(BorderStep, ExtremeValuesGiveNoStepOrAFiniteOne) {
  for (const double scale : {1e-300, 1e300}) {
    const Problem problem{
        "extreme",
        {0, 0},
        {1, 1},
        [scale](const VectorXd& x) { return std::vector<double>{scale * x(0), scale * (x(1) - x(0))}; },
        {{-kInfinity, 0.0}},
        0.0,
        0};
    BorderRun run(problem);
    run.Start(6, 7);
    for (int i = 0; i < 10 && run.Step(); ++i) {
    }
  }
  const Problem constant{
      "constant",          {0, 0}, {1, 1}, [](const VectorXd&) {
                           return std::vector<double>{1.0, 2.0}; },
      {{-kInfinity, 1.0}}, 0.0,    0};
  BorderRun run(constant);
  run.Start(6, 8);
  for (int i = 0; i < 10 && run.Step(); ++i) {
  }
}

TEST(BorderStep, MetricsOfManyDecadesAreFollowed) {
  // x y is least where 1e-3 / x^4 is at most 50 and 1 / (x y^2) at most 30.
  const Problem problem{"decades",
                        {0.01, 0.01},
                        {1, 1},
                        [](const VectorXd& x) {
                          return std::vector<double>{x(0) * x(1), 1e-3 / std::pow(x(0), 4), 1 / (x(0) * x(1) * x(1))};
                        },
                        {{-kInfinity, 50.0}, {-kInfinity, 30.0}},
                        // On both bounds.
                        std::pow(2e-5, 0.25) * std::sqrt(1.0 / (30.0 * std::pow(2e-5, 0.25))),
                        0};
  BorderRun run(problem);
  run.Start(6, 9);
  while (run.data.points.rows() < 70 && run.Step()) {
  }
  EXPECT_NEAR(run.Best() / problem.least, 1.0, 1e-8);
}

TEST(BorderStep, TheStateOfAClimbComesBackToTheBit) {
  BoState state;
  state.kind = AskKind::kLocalStep;
  state.metrics.resize(2);
  BorderClimb climb;
  climb.home = VectorXd{{0.0, 0.25}};
  climb.state = {
      0.1, 0.3, true, VectorXd{{0.5}}, VectorXd{{0.7}}, VectorXd{{2.0, 3.0}}, {VectorXd{{0.1}}, VectorXd{{4}}}};
  state.border = climb;
  const std::string bytes = FormatBoState(state);
  EXPECT_EQ(ParseAskHead(bytes).kind, AskKind::kLocalStep);
  const BoState back = ParseBoState(bytes, ChoicesOfGroups(1));
  ASSERT_TRUE(back.border.has_value());
  EXPECT_EQ(back.metrics.size(), 2u);
  EXPECT_EQ(back.border->home, climb.home);
  EXPECT_EQ(back.border->state.penalties, climb.state.penalties);
  EXPECT_EQ(back.border->state.lengths, climb.state.lengths);
  EXPECT_EQ(FormatBoState(back), bytes);
  state.border->state.lengths[1](0) = -1.0;  // Not a length.
  EXPECT_FALSE(ParseBoState(FormatBoState(state), ChoicesOfGroups(1)).border.has_value());
}

}  // namespace
}  // namespace luthier::search
