#include "lib/math/direct.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/catalogue/test_functions.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const catalogue::TestFunction& Function(const char* name) {
  return **catalogue::FindTestFunction(name);
}

double AtUnit(const catalogue::TestFunction& f, const VectorXd& u) {
  return f((f.lower.array() + u.array() * (f.upper - f.lower).array()).matrix(), nullptr);
}

// Evaluations until the value is within 0.01 % of the minimum, in the order of the rows.
int EvaluationsToSolve(const catalogue::TestFunction& f, const DirectOptions& options) {
  int evaluations = 0, solved = 0;
  MinimizeDirect(
      [&](const MatrixXd& points) {
        VectorXd values(points.rows());
        for (Index i = 0; i < points.rows(); ++i) {
          values(i) = AtUnit(f, points.row(i).transpose());
          ++evaluations;
          if (solved == 0 && values(i) - f.minimum < 1e-4 * std::abs(f.minimum)) solved = evaluations;
        }
        return values;
      },
      f.dim(), options, base::StopToken())
      .value();
  return solved == 0 ? std::numeric_limits<int>::max() : solved;
}

// Jones, Perttunen & Stuckman 1993, table 1: evaluations to 0.01 % of the minimum.
TEST(Direct, NeedsNoMoreEvaluationsThanPublished) {
  const std::map<std::string, int> published = {
      {"branin", 195}, {"goldstein_price", 191}, {"camel", 285}, {"hartmann3", 199}, {"hartmann6", 571}};
  for (const DirectMargin margin : {DirectMargin::kMagnitude, DirectMargin::kMedianGap}) {
    for (const auto& [name, count] : published) {
      DirectOptions options;
      options.margin = margin;
      if (margin == DirectMargin::kMagnitude) options.epsilon = 1e-4;  // As published.
      options.max_evaluations = 2000;
      const int needed = EvaluationsToSolve(Function(name.c_str()), options);
      EXPECT_LE(needed, 1.1 * count) << name << " margin " << static_cast<int>(margin);
    }
  }
}

TEST(Direct, LocallyBiasedSearchSolvesTheSameFunctions) {
  for (const char* name : {"branin", "goldstein_price", "camel", "hartmann3", "hartmann6"}) {
    DirectOptions options;
    options.size = DirectSize::kLongestSide;
    options.locally_biased = true;
    const int needed = EvaluationsToSolve(Function(name), options);
    EXPECT_LE(needed, 150 * Function(name).dim()) << name;
  }
}

std::vector<VectorXd> Visited(double scale, double shift, const DirectOptions& options) {
  const auto& f = Function("branin");
  std::vector<VectorXd> visited;
  MinimizeDirect(
      [&](const MatrixXd& points) {
        VectorXd values(points.rows());
        for (Index i = 0; i < points.rows(); ++i) {
          visited.push_back(points.row(i).transpose());
          values(i) = scale * AtUnit(f, points.row(i).transpose()) + shift;
        }
        return values;
      },
      2, options, base::StopToken())
      .value();
  return visited;
}

TEST(Direct, DoesNotDependOnTheUnitsOfTheFunction) {
  DirectOptions options;
  options.max_evaluations = 400;
  EXPECT_EQ(Visited(1.0, 0.0, options), Visited(1024.0, 0.0, options));
  EXPECT_EQ(Visited(1.0, 0.0, options), Visited(1.0, 1000.0, options));
}

TEST(Direct, EvaluatesDistinctCentresOfAPartition) {
  DirectOptions options;
  options.max_evaluations = 777;
  const std::vector<VectorXd> visited = Visited(1.0, 0.0, options);
  EXPECT_EQ(visited.size(), 777u);
  std::set<std::pair<double, double>> distinct;
  for (const VectorXd& u : visited) {
    EXPECT_GT(u.minCoeff(), 0.0);
    EXPECT_LT(u.maxCoeff(), 1.0);
    distinct.emplace(std::round(u(0) * 1e12), std::round(u(1) * 1e12));
  }
  EXPECT_EQ(distinct.size(), visited.size());
}

TEST(Direct, SearchesAroundRejectedRegions) {
  // Finite only in a small ball away from the centre; the minimum is in the middle of the ball.
  const VectorXd target = (VectorXd(3) << 0.21, 0.78, 0.4).finished();
  for (const double nothing : {kInfinity, -kInfinity, std::nan("")}) {
    int calls = 0;
    const DirectResult r = MinimizeDirect(
                               [&](const MatrixXd& points) {
                                 ++calls;
                                 VectorXd values(points.rows());
                                 for (Index i = 0; i < points.rows(); ++i) {
                                   const double distance = (points.row(i).transpose() - target).norm();
                                   values(i) = distance < 0.2 ? distance * distance : nothing;
                                 }
                                 return values;
                               },
                               3, {}, base::StopToken())
                               .value();
    EXPECT_EQ(r.outcome, DirectOutcome::kLimit);
    EXPECT_EQ(r.evaluations, 1500);
    EXPECT_GT(r.not_finite, 0);
    EXPECT_LT(calls, 400);  // Sweeps come in batches.
    EXPECT_LT((r.x - target).norm(), 1e-3);
  }
}

TEST(Direct, SaysSoWhenNothingIsFinite) {
  const DirectResult r =
      MinimizeDirect([](const MatrixXd& p) { return VectorXd::Constant(p.rows(), std::nan("")).eval(); }, 2, {},
                     base::StopToken())
          .value();
  EXPECT_EQ(r.outcome, DirectOutcome::kNoPoint);
  EXPECT_EQ(r.value, kInfinity);
  EXPECT_EQ(r.not_finite, r.evaluations);
  EXPECT_EQ(r.x, VectorXd::Constant(2, 0.5));
}

TEST(Direct, StopsAtSmallCells) {
  DirectOptions options;
  options.min_size = 1e-3;
  options.max_evaluations = 20000;
  const DirectResult r = MinimizeDirect([](const MatrixXd& p) { return VectorXd((p.col(0).array() - 0.3).square()); },
                                        1, options, base::StopToken())
                             .value();
  EXPECT_EQ(r.outcome, DirectOutcome::kSmall);
  EXPECT_LT(r.evaluations, 1000);
  EXPECT_NEAR(r.x(0), 0.3, 1e-3);
}

TEST(Direct, HandlesNoCoordinates) {
  const DirectResult r =
      MinimizeDirect([](const MatrixXd& p) { return VectorXd::Ones(p.rows()).eval(); }, 0, {}, base::StopToken())
          .value();
  EXPECT_EQ(r.evaluations, 1);
  EXPECT_EQ(r.value, 1.0);
}

}  // namespace
}  // namespace luthier::math
