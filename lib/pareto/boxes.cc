#include "lib/pareto/boxes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "lib/base/check.h"
#include "lib/pareto/dominance.h"

namespace luthier::pareto {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXi;
using Eigen::VectorXd;
using Eigen::VectorXi;

namespace {

// Ranks of the points in each column, from 1; no two are equal. Rank 0 is the reference's, n + 1 that of infinity.
MatrixXi Ranks(const MatrixXd& points) {
  MatrixXi ranks(points.rows(), points.cols());
  std::vector<Index> order(static_cast<size_t>(points.rows()));
  for (Index j = 0; j < points.cols(); ++j) {
    std::iota(order.begin(), order.end(), Index{0});
    std::sort(order.begin(), order.end(),
              [&](Index a, Index b) { return points(a, j) != points(b, j) ? points(a, j) < points(b, j) : a < b; });
    for (size_t k = 0; k < order.size(); ++k) ranks(order[k], j) = static_cast<int>(k) + 1;
  }
  return ranks;
}

// A local bound: a corner, and in row k the ranks of the point that defines its coordinate k.
struct LocalBound {
  VectorXi corner;
  MatrixXi defining;
};

// Returns the local bounds of the points whose ranks are rows; std::nullopt if there are more than `most`.
std::optional<std::vector<LocalBound>> LocalBounds(const MatrixXi& ranks, Index most) {
  const Index m = ranks.cols();
  const int top = static_cast<int>(ranks.rows()) + 1;
  LocalBound first{VectorXi::Zero(m), MatrixXi::Constant(m, m, top)};
  first.defining.diagonal().setZero();
  std::vector<LocalBound> bounds = {std::move(first)}, made;
  for (Index i = 0; i < ranks.rows(); ++i) {
    const auto point = ranks.row(i);
    made.clear();
    const auto kept = std::partition(bounds.begin(), bounds.end(), [&](const LocalBound& bound) {
      return !(point.transpose().array() > bound.corner.array()).all();
    });
    for (auto bound = kept; bound != bounds.end(); ++bound) {
      for (Index j = 0; j < m; ++j) {
        // The bound that the point raises in column j is redundant unless the points that define the other columns stay
        // above it.
        bool redundant = false;
        for (Index k = 0; k < m && !redundant; ++k) redundant = k != j && bound->defining(k, j) < point(j);
        if (redundant) continue;
        LocalBound raised = *bound;
        raised.corner(j) = point(j);
        raised.defining.row(j) = point;
        made.push_back(std::move(raised));
      }
    }
    bounds.erase(kept, bounds.end());
    std::move(made.begin(), made.end(), std::back_inserter(bounds));
    if (static_cast<Index>(bounds.size()) > most) return std::nullopt;
  }
  return bounds;
}

// Returns the level of each rank of column j, and lists the levels.
std::vector<int> LevelsOf(const MatrixXd& points, const MatrixXi& ranks, Index j, double reference,
                          std::vector<double>* levels) {
  std::vector<double> values(static_cast<size_t>(points.rows()) + 2);
  values.front() = reference;
  values.back() = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < points.rows(); ++i) values[static_cast<size_t>(ranks(i, j))] = points(i, j);
  std::vector<int> level_of;
  for (const double value : values) {
    if (levels->empty() || value > levels->back()) levels->push_back(value);
    level_of.push_back(static_cast<int>(levels->size()) - 1);
  }
  return level_of;
}

}  // namespace

std::optional<Boxes> BoxesAbove(const Eigen::Ref<const MatrixXd>& points, const Eigen::Ref<const VectorXd>& reference,
                                Index most_boxes) {
  const Index m = reference.size();
  LUTHIER_CHECK(m >= 1 && points.cols() == m);
  std::vector<Index> above;
  for (Index i = 0; i < points.rows(); ++i) {
    if ((points.row(i).transpose().array() > reference.array()).all()) above.push_back(i);
  }
  MatrixXd front = points(above, Eigen::all);
  front = front(Front(front), Eigen::all).eval();
  const MatrixXi ranks = Ranks(front);
  const std::optional<std::vector<LocalBound>> bounds = LocalBounds(ranks, most_boxes);
  if (!bounds.has_value()) return std::nullopt;
  Boxes boxes;
  boxes.levels.resize(static_cast<size_t>(m));
  const Index n = static_cast<Index>(bounds->size());
  boxes.lower.resize(n, m);
  boxes.upper.resize(n, m);
  for (Index j = 0; j < m; ++j) {
    const std::vector<int> level_of = LevelsOf(front, ranks, j, reference(j), &boxes.levels[static_cast<size_t>(j)]);
    for (Index k = 0; k < n; ++k) {
      const LocalBound& bound = (*bounds)[static_cast<size_t>(k)];
      int end = static_cast<int>(front.rows()) + 1;
      for (Index other = j + 1; other < m; ++other) end = std::min(end, bound.defining(other, j));
      boxes.lower(k, j) = level_of[static_cast<size_t>(bound.corner(j))];
      boxes.upper(k, j) = level_of[static_cast<size_t>(end)];
    }
  }
  std::vector<Index> solid;
  for (Index k = 0; k < n; ++k) {
    if ((boxes.lower.row(k).array() < boxes.upper.row(k).array()).all()) solid.push_back(k);
  }
  boxes.lower = boxes.lower(solid, Eigen::all).eval();
  boxes.upper = boxes.upper(solid, Eigen::all).eval();
  return boxes;
}

}  // namespace luthier::pareto
