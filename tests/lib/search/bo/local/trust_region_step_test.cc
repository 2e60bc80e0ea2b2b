#include "lib/search/bo/local/trust_region_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/catalogue/test_functions.h"
#include "lib/math/finite_difference.h"
#include "lib/math/lbfgs.h"
#include "lib/math/sobol.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// A function on the unit cube with its gradient; smaller is better.
struct UnitProblem {
  const catalogue::TestFunction& f;
  double minimum = 0.0;  // To rounding.
  VectorXd minimizer;

  explicit UnitProblem(const std::string& name) : f(**catalogue::FindTestFunction(name)) {
    math::LbfgsOptions options;
    options.gradient_tolerance = 1e-14;
    options.max_iterations = 500;
    options.max_evaluations = 1000;
    const VectorXd start = (f.minimizers[0] - f.lower).cwiseQuotient(f.upper - f.lower);
    const math::LbfgsResult r =
        math::MinimizeLbfgs([this](const VectorXd& u, VectorXd* g) { return At(u, g); }, start, VectorXd::Zero(f.dim()),
                            VectorXd::Ones(f.dim()), options, base::StopToken())
            .value();
    minimum = r.value;
    minimizer = r.x;
  }
  double At(const VectorXd& u, VectorXd* gradient) const {
    const VectorXd width = f.upper - f.lower;
    const double value = f((f.lower + u.cwiseProduct(width)).eval(), gradient);
    if (gradient != nullptr) *gradient = gradient->cwiseProduct(width);
    return value;
  }
};

enum class Slopes { kNone, kFull, kOneEach };

struct Search {
  TrustRegionData data;
  TrustRegionState state;
  Slopes slopes = Slopes::kNone;
  double slope_noise = 0.0;

  void Add(const UnitProblem& problem, const VectorXd& u) {
    VectorXd gradient;
    const double value = problem.At(u, &gradient);
    const int row = static_cast<int>(data.points.rows());
    data.points.conservativeResize(row + 1, u.size());
    data.scores.conservativeResize(row + 1);
    data.points.row(row) = u.transpose();
    data.scores(row) = -value;
    base::RandomStream stream(7, "trust region test", static_cast<uint64_t>(row));
    if (slopes == Slopes::kFull) {
      const double error = slope_noise * gradient.norm();
      for (Index j = 0; j < u.size(); ++j) {
        data.slopes.push_back({row, VectorXd::Unit(u.size(), j), -gradient(j) + error * stream.Normal()});
      }
    } else if (slopes == Slopes::kOneEach) {
      VectorXd v(u.size());
      for (Index j = 0; j < u.size(); ++j) v(j) = stream.Normal();
      data.slopes.push_back({row, v, -gradient.dot(v)});
    }
  }
  double Regret(const UnitProblem& problem) const { return -data.scores.maxCoeff() - problem.minimum; }
};

// `sobol` scrambled Sobol points of the whole cube, then one at 0.15 from the minimizer.
Search Start(const UnitProblem& problem, uint64_t seed, int sobol, Slopes slopes = Slopes::kNone) {
  Search run;
  run.slopes = slopes;
  const Index d = problem.f.dim();
  const math::SobolSequence sequence(static_cast<int>(d), seed, "trust region test");
  for (int i = 0; i < sobol; ++i) run.Add(problem, sequence.Point(static_cast<uint64_t>(i)));
  base::RandomStream stream(seed, "trust region test");
  VectorXd away(d);
  for (Index j = 0; j < d; ++j) away(j) = stream.Normal();
  run.Add(problem, (problem.minimizer + 0.15 * away.normalized()).cwiseMax(0.0).cwiseMin(1.0));
  return run;
}

// Steps until the regret is at most `target`; `budget` + 1 when that is not enough or it converged elsewhere.
int StepsTo(double target, const UnitProblem& problem, Search* run, int budget,
            const TrustRegionOptions& options = {}) {
  for (int steps = 0; steps <= budget; ++steps) {
    if (run->Regret(problem) <= target) return steps;
    const auto step = SuggestTrustRegionStep(run->data, run->state, options, base::StopToken()).value();
    if (!step.has_value() || step->kind == TrustRegionStepKind::kConverged) break;
    run->state = step->next;
    run->Add(problem, step->point);
  }
  return budget + 1;
}

int MedianStepsTo(double target, const UnitProblem& problem, int sobol, Slopes slopes, int budget,
                  const TrustRegionOptions& options = {}) {
  std::vector<int> steps;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Search run = Start(problem, seed, sobol, slopes);
    steps.push_back(StepsTo(target, problem, &run, budget, options));
  }
  std::sort(steps.begin(), steps.end());
  return steps[1];
}

// Evaluations from 20 Sobol points and one in the right basin; NEWUOA's class needs about 20 for d = 2, 75 for d = 6
// and hundreds on Rosenbrock.
TEST(TrustRegionStep, ReachesRoundingFromValuesAlone) {
  const std::map<std::string, int> bounds = {{"branin", 15},      {"camel", 16},       {"goldstein_price", 45},
                                             {"hartmann3", 32},   {"hartmann6", 62},   {"rosenbrock2", 9},
                                             {"rosenbrock3", 35}, {"rosenbrock4", 95}, {"rosenbrock5", 150}};
  for (const auto& [name, bound] : bounds) {
    const int steps = MedianStepsTo(1e-12, UnitProblem(name), 20, Slopes::kNone, 200);
    RecordProperty(name, steps);
    EXPECT_LE(steps, bound) << name;
  }
}

// The bar is restarted bounded L-BFGS: about 50 calls for all of these.
TEST(TrustRegionStep, ReachesRoundingFasterWithGradients) {
  const std::map<std::string, int> bounds = {{"branin", 10},      {"camel", 12},       {"goldstein_price", 25},
                                             {"hartmann3", 16},   {"hartmann6", 22},   {"rosenbrock2", 8},
                                             {"rosenbrock3", 14}, {"rosenbrock4", 28}, {"rosenbrock5", 40}};
  for (const auto& [name, bound] : bounds) {
    const int steps = MedianStepsTo(1e-12, UnitProblem(name), 2, Slopes::kFull, 100);
    RecordProperty(name, steps);
    EXPECT_LE(steps, bound) << name;
  }
}

TEST(TrustRegionStep, OneSlopeEachIsWorthMoreThanNone) {
  for (const char* name : {"hartmann6", "rosenbrock3", "rosenbrock4"}) {
    const UnitProblem problem(name);
    EXPECT_LT(MedianStepsTo(1e-12, problem, 8, Slopes::kOneEach, 150),
              MedianStepsTo(1e-12, problem, 8, Slopes::kNone, 150))
        << name;
  }
}

TEST(TrustRegionStep, InexactGradientsStillHelp) {
  const UnitProblem problem("hartmann3");
  Search run = Start(problem, 0, 2, Slopes::kFull);
  run.slope_noise = 0.01;
  EXPECT_LE(StepsTo(1e-6, problem, &run, 60), 60);
}

// Cubic terms are what a quadratic model stumbles over in a curved valley.
TEST(TrustRegionStep, HigherDegreesBeatTheClassicalQuadratic) {
  TrustRegionOptions quadratic;
  quadratic.max_degree = 2;
  for (const char* name : {"rosenbrock2", "rosenbrock3"}) {
    const UnitProblem problem(name);
    EXPECT_LT(3 * MedianStepsTo(1e-8, problem, 20, Slopes::kNone, 150),
              2 * MedianStepsTo(1e-8, problem, 20, Slopes::kNone, 150, quadratic))
        << name;
  }
}

TEST(TrustRegionStep, FindsAMaximumInACorner) {
  Search run;
  const auto score = [](const VectorXd& u) { return u(0) - 2.0 * u(1) + 0.3 * u(0) * u(1) - std::pow(u(2) - 0.25, 2); };
  run.data.points.resize(1, 3);
  run.data.points << 0.4, 0.6, 0.5;
  run.data.points.conservativeResize(3, 3);
  run.data.points.row(1) << 0.5, 0.5, 0.5;
  run.data.points.row(2) << 0.1, 0.8, 0.3;
  run.data.scores.resize(3);
  for (Index i = 0; i < 3; ++i) run.data.scores(i) = score(run.data.points.row(i).transpose());
  for (int i = 0; i < 25; ++i) {
    const auto step = SuggestTrustRegionStep(run.data, run.state, {}, base::StopToken()).value();
    ASSERT_TRUE(step.has_value());
    if (step->kind == TrustRegionStepKind::kConverged) break;
    ASSERT_GE(step->point.minCoeff(), 0.0);
    ASSERT_LE(step->point.maxCoeff(), 1.0);
    run.state = step->next;
    const Index n = run.data.points.rows();
    run.data.points.conservativeResize(n + 1, 3);
    run.data.points.row(n) = step->point.transpose();
    run.data.scores.conservativeResize(n + 1);
    run.data.scores(n) = score(step->point);
  }
  EXPECT_NEAR(run.data.scores.maxCoeff(), 1.0, 1e-12);
}

TEST(TrustRegionStep, DoesNotDependOnTheUnitsOfTheScores) {
  const UnitProblem problem("branin");
  Search run = Start(problem, 1, 10);
  const auto plain = SuggestTrustRegionStep(run.data, {}, {}, base::StopToken()).value();
  run.data.scores *= 1024.0;
  EXPECT_EQ(SuggestTrustRegionStep(run.data, {}, {}, base::StopToken()).value()->point, plain->point);
  run.data.scores = run.data.scores.array() / 1024.0 + 100.0;
  EXPECT_LT((SuggestTrustRegionStep(run.data, {}, {}, base::StopToken()).value()->point - plain->point).norm(), 1e-6);
}

TEST(TrustRegionStep, PredictsWhatItThenGains) {
  const UnitProblem problem("hartmann3");
  Search run = Start(problem, 0, 20);
  StepsTo(1e-7, problem, &run, 60);
  const auto step = SuggestTrustRegionStep(run.data, run.state, {}, base::StopToken()).value();
  ASSERT_TRUE(step.has_value());
  ASSERT_EQ(step->kind, TrustRegionStepKind::kImprove);
  const double before = run.data.scores.maxCoeff();
  EXPECT_EQ(run.data.scores(step->incumbent), before);
  EXPECT_NEAR((-problem.At(step->point, nullptr) - before) / step->predicted_gain, 1.0, 0.5);
  // Gradient and curvature at the incumbent, against the function's.
  const VectorXd centre = run.data.points.row(step->incumbent).transpose();
  const MatrixXd hessian = math::CentralJacobian(
      [&](const VectorXd& u) {
        VectorXd g;
        problem.At(u, &g);
        return g;
      },
      centre);
  EXPECT_LT((step->hessian + hessian).norm(), 0.2 * hessian.norm());
}

TEST(TrustRegionStep, GoesElsewhereWhileAStepIsUnderWay) {
  const UnitProblem problem("hartmann6");
  const Search run = Start(problem, 0, 30);
  TrustRegionData data = run.data;
  TrustRegionState state;
  data.pending.resize(0, 6);
  for (int i = 0; i < 6; ++i) {
    const auto step = SuggestTrustRegionStep(data, state, {}, base::StopToken()).value();
    ASSERT_TRUE(step.has_value());
    for (Index p = 0; p < i; ++p) EXPECT_GT((data.pending.row(p).transpose() - step->point).norm(), 1e-3);
    EXPECT_EQ(step->next.radius, 0.2);  // Nothing is known of the steps under way.
    data.pending.conservativeResize(i + 1, 6);
    data.pending.row(i) = step->point.transpose();
    state = step->next;
  }
}

TEST(TrustRegionStep, ShrinksAfterFailureAndFollowsTheIncumbent) {
  const UnitProblem problem("branin");
  Search run = Start(problem, 2, 10);
  const auto first = SuggestTrustRegionStep(run.data, {}, {}, base::StopToken()).value();
  ASSERT_TRUE(first.has_value());
  // The step was never evaluated: cancelled, or it failed.
  const auto second = SuggestTrustRegionStep(run.data, first->next, {}, base::StopToken()).value();
  EXPECT_LT(second->next.radius, first->next.radius);
  EXPECT_NE(second->point, first->point);
  // Somebody else found something better far away.
  TrustRegionState small = second->next;
  small.radius = 1e-4;
  Search moved = run;
  moved.data.points.conservativeResize(12, 2);
  moved.data.points.row(11) << 0.93, 0.02;
  moved.data.scores.conservativeResize(12);
  moved.data.scores(11) = run.data.scores.maxCoeff() + 5.0;
  EXPECT_EQ(SuggestTrustRegionStep(moved.data, small, {}, base::StopToken()).value()->next.radius, 0.2);
}

TEST(TrustRegionStep, SaysWhenItHasConverged) {
  const UnitProblem problem("branin");
  Search run = Start(problem, 1, 10);
  bool converged = false;
  for (int i = 0; i < 120 && !converged; ++i) {
    const auto step = SuggestTrustRegionStep(run.data, run.state, {}, base::StopToken()).value();
    ASSERT_TRUE(step.has_value());
    converged = step->kind == TrustRegionStepKind::kConverged;
    run.state = step->next;
    if (!converged) run.Add(problem, step->point);
  }
  EXPECT_TRUE(converged);
  EXPECT_LT(run.Regret(problem), 1e-13);
}

TEST(TrustRegionStep, SurvivesDegenerateData) {
  TrustRegionData data;
  EXPECT_FALSE(SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value().has_value());
  data.points = MatrixXd::Constant(1, 2, 0.5);
  data.scores = VectorXd::Zero(1);
  EXPECT_FALSE(SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value().has_value());
  data.points = MatrixXd::Constant(5, 2, 0.5);  // One point five times.
  data.scores = VectorXd::Zero(5);
  EXPECT_FALSE(SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value().has_value());

  const math::SobolSequence sobol(2);
  data.points = sobol.Points(1, 12);
  data.points.row(3) = data.points.row(4);
  for (const double value : {0.0, 1e300, -1e300, 1e-300}) {  // All equal.
    data.scores = VectorXd::Constant(12, value);
    const auto step = SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value();
    if (!step.has_value()) continue;
    EXPECT_NE(step->kind, TrustRegionStepKind::kImprove) << value;
    EXPECT_TRUE(step->point.allFinite());
  }
  for (Index i = 0; i < 12; ++i)
    data.scores(i) = (i % 2 == 0 ? 1.0 : -1.0) * std::pow(10.0, 25.0 * static_cast<double>(i));
  const auto step = SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value();  // Up to 1e275.
  EXPECT_TRUE(!step.has_value() || step->point.allFinite());
  data.points.col(1).setConstant(0.0);  // On one face.
  data.scores = -(data.points.col(0).array() - 0.4).square();
  const auto on_face = SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value();
  ASSERT_TRUE(on_face.has_value());
  EXPECT_NEAR(on_face->point(0), 0.4, 1e-3);
}

TEST(TrustRegionStep, OneGradientIsEnoughToStart) {
  TrustRegionData data;
  data.points = MatrixXd::Constant(1, 2, 0.5);
  data.scores = VectorXd::Zero(1);
  data.slopes = {{0, VectorXd::Unit(2, 0), 1.0}, {0, VectorXd::Unit(2, 1), -2.0}};
  const auto step = SuggestTrustRegionStep(data, {}, {}, base::StopToken()).value();
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->point, (VectorXd(2) << 0.7, 0.3).finished());
}

TEST(TrustRegionStep, CopesWithManyCoordinatesAndPoints) {
  const int d = 40;
  const math::SobolSequence sobol(d);
  TrustRegionData data;
  data.points = sobol.Points(1, 300);
  data.scores = -(data.points.array() - 0.3).square().rowwise().sum();  // At best -1.6.
  TrustRegionState state;
  for (Index n = 300; n < 340; ++n) {
    const auto step = SuggestTrustRegionStep(data, state, {}, base::StopToken()).value();
    ASSERT_TRUE(step.has_value());
    EXPECT_EQ(step->degree, 2);
    state = step->next;
    data.points.conservativeResize(n + 1, d);
    data.points.row(n) = step->point.transpose();
    data.scores.conservativeResize(n + 1);
    data.scores(n) = -(step->point.array() - 0.3).square().sum();
  }
  EXPECT_GT(data.scores.maxCoeff(), -0.8);
}

}  // namespace
}  // namespace luthier::search
