#include "lib/math/direct.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

struct Cell {
  VectorXd centre;
  std::vector<int8_t> levels;  // Side j is 3^-levels[j]; the levels of a cell differ by at most one.
  int divisions = 0;   // Sum of the levels. It determines the cell's shape up to the order of its sides, so its size.
  double value = 0.0;  // As f gave it.

  bool finite() const { return std::isfinite(value); }
};

// The evaluations for one cell: two points along each longest side.
struct Division {
  int cell;
  int first_row;  // In the sweep's batch; side k of `sides` has rows first_row + 2k (minus) and + 2k + 1 (plus).
  std::vector<int> sides;
};

class Direct {
 public:
  Direct(BatchFunction f, Index dim, const DirectOptions& options)
      : f_(f),
        dim_(dim),
        options_(options),
        max_evaluations_(options.max_evaluations > 0 ? options.max_evaluations
                                                     : static_cast<int>(std::clamp<Index>(500 * dim, 1, 20'000))) {}

  absl::StatusOr<DirectResult> Run(const base::StopToken& stop);

 private:
  // Cells of one size class: the finite ones by value then age, the others by age.
  struct Group {
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> finite;
    std::vector<int> flagged;
    size_t flagged_begin = 0;

    bool empty() const { return finite.empty() && flagged_begin == flagged.size(); }
  };
  struct HullPoint {
    int group;
    double size;
    double value;
  };

  int GroupOf(const Cell& cell) const;
  double SizeOf(int group) const;
  void Insert(int cell);
  // The cells to divide this sweep, taken out of their groups. Empty: the search is over.
  std::vector<int> TakePotentiallyOptimal();
  double Margin();
  absl::StatusOr<VectorXd> Evaluate(const MatrixXd& points);
  void Divide(const Division& division, const MatrixXd& points, const VectorXd& values);

  BatchFunction f_;
  const Index dim_;
  const DirectOptions options_;
  const int max_evaluations_;
  std::vector<Cell> cells_;
  std::vector<Group> groups_;
  std::vector<double> finite_values_;  // Finite values of all evaluations; Margin changes their order.
  double worst_ = -kInfinity;          // Largest finite value.
  DirectResult result_;
};

int Direct::GroupOf(const Cell& cell) const {
  if (options_.size == DirectSize::kDiagonal) return cell.divisions;
  return cell.divisions / static_cast<int>(dim_);  // The lowest level.
}

double Direct::SizeOf(int group) const {
  const int d = static_cast<int>(dim_);
  if (options_.size == DirectSize::kLongestSide) return std::pow(3.0, -group);
  const double side = std::pow(3.0, -(group / d));
  const int short_sides = group % d;
  return 0.5 * side * std::sqrt(d - short_sides + short_sides / 9.0);
}

void Direct::Insert(int index) {
  const Cell& cell = cells_[index];
  const size_t group = static_cast<size_t>(GroupOf(cell));
  if (groups_.size() <= group) groups_.resize(group + 1);
  if (cell.finite()) {
    groups_[group].finite.emplace(cell.value, index);
  } else {
    groups_[group].flagged.push_back(index);
  }
}

double Direct::Margin() {
  if (finite_values_.empty()) return 0.0;
  if (options_.margin == DirectMargin::kMagnitude) {
    return options_.epsilon * std::max(std::abs(result_.value), 1e-8 * (worst_ - result_.value));
  }
  const auto middle = finite_values_.begin() + static_cast<std::ptrdiff_t>(finite_values_.size() / 2);
  std::nth_element(finite_values_.begin(), middle, finite_values_.end());
  return options_.epsilon * (*middle - result_.value);
}

std::vector<int> Direct::TakePotentiallyOptimal() {
  const double flagged_value = finite_values_.empty() ? 0.0 : worst_ + 1.0;
  // Sizes ascend as groups descend. The hull starts at the largest cell among those of the smallest value.
  std::vector<HullPoint> points;
  for (int g = static_cast<int>(groups_.size()) - 1; g >= 0; --g) {
    const Group& group = groups_[static_cast<size_t>(g)];
    if (group.empty()) continue;
    points.push_back({g, SizeOf(g), group.finite.empty() ? flagged_value : group.finite.top().first});
  }
  size_t start = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].value <= points[start].value) start = i;
  }
  std::vector<HullPoint> hull;
  for (size_t i = start; i < points.size(); ++i) {
    const HullPoint& p = points[i];
    while (hull.size() >= 2) {
      const HullPoint &a = hull[hull.size() - 2], &b = hull.back();
      if ((b.value - a.value) * (p.size - a.size) < (p.value - a.value) * (b.size - a.size)) break;
      hull.pop_back();
    }
    hull.push_back(p);
  }
  const double target = hull.front().value - Margin();
  std::vector<int> taken;
  for (size_t i = 0; i < hull.size(); ++i) {
    const HullPoint& p = hull[i];
    if (i + 1 < hull.size()) {  // The largest cell has no upper bound on its slope: always divided.
      const double slope = (hull[i + 1].value - p.value) / (hull[i + 1].size - p.size);
      if (p.value - slope * p.size > target) continue;
    }
    if (p.size < options_.min_size) return {};
    Group& group = groups_[static_cast<size_t>(p.group)];
    if (!group.finite.empty()) {
      do {
        taken.push_back(group.finite.top().second);
        group.finite.pop();
      } while (!options_.locally_biased && !group.finite.empty() && group.finite.top().first == p.value);
    } else {
      do {
        taken.push_back(group.flagged[group.flagged_begin++]);
      } while (!options_.locally_biased && group.flagged_begin < group.flagged.size());
    }
  }
  return taken;
}

absl::StatusOr<VectorXd> Direct::Evaluate(const MatrixXd& points) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd values, f_(points));
  LUTHIER_CHECK(values.size() == points.rows());
  for (Index i = 0; i < values.size(); ++i) {
    ++result_.evaluations;
    if (!std::isfinite(values(i))) {
      ++result_.not_finite;
      continue;
    }
    finite_values_.push_back(values(i));
    worst_ = std::max(worst_, values(i));
    if (values(i) < result_.value) {
      result_.value = values(i);
      result_.x = points.row(i).transpose();
    }
  }
  return values;
}

void Direct::Divide(const Division& division, const MatrixXd& points, const VectorXd& values) {
  struct Side {
    double lowest;
    int index;
    int row;
  };
  const auto rank = [](double v) { return std::isfinite(v) ? v : kInfinity; };
  std::vector<Side> sides;
  for (size_t k = 0; k < division.sides.size(); ++k) {
    const int row = division.first_row + 2 * static_cast<int>(k);
    sides.push_back({std::min(rank(values(row)), rank(values(row + 1))), division.sides[k], row});
  }
  std::stable_sort(sides.begin(), sides.end(), [](const Side& a, const Side& b) { return a.lowest < b.lowest; });
  for (const Side& side : sides) {
    Cell& parent = cells_[static_cast<size_t>(division.cell)];
    ++parent.levels[static_cast<size_t>(side.index)];
    ++parent.divisions;
    for (int row : {side.row, side.row + 1}) {
      Cell child{points.row(row).transpose(), cells_[static_cast<size_t>(division.cell)].levels,
                 cells_[static_cast<size_t>(division.cell)].divisions, values(row)};
      cells_.push_back(std::move(child));
      Insert(static_cast<int>(cells_.size()) - 1);
    }
  }
  Insert(division.cell);
}

absl::StatusOr<DirectResult> Direct::Run(const base::StopToken& stop) {
  result_.value = kInfinity;
  result_.x = VectorXd::Constant(dim_, 0.5);
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd first, Evaluate(result_.x.transpose()));
  const auto outcome = [this](DirectOutcome o) {
    result_.outcome = finite_values_.empty() ? DirectOutcome::kNoPoint : o;
    return result_;
  };
  if (dim_ == 0) return outcome(DirectOutcome::kSmall);
  cells_.push_back({result_.x, std::vector<int8_t>(static_cast<size_t>(dim_), 0), 0, first(0)});
  Insert(0);
  for (;;) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const std::vector<int> taken = TakePotentiallyOptimal();
    if (taken.empty()) return outcome(DirectOutcome::kSmall);
    std::vector<Division> divisions;
    int rows = 0;
    for (int index : taken) {
      const Cell& cell = cells_[static_cast<size_t>(index)];
      const int8_t lowest = *std::min_element(cell.levels.begin(), cell.levels.end());
      Division division{index, rows, {}};
      for (int j = 0; j < static_cast<int>(dim_); ++j) {
        if (cell.levels[static_cast<size_t>(j)] == lowest) division.sides.push_back(j);
      }
      rows += 2 * static_cast<int>(division.sides.size());
      divisions.push_back(std::move(division));
      if (result_.evaluations + rows >= max_evaluations_) break;
    }
    MatrixXd points(rows, dim_);
    for (const Division& division : divisions) {
      const Cell& cell = cells_[static_cast<size_t>(division.cell)];
      int row = division.first_row;
      for (int j : division.sides) {
        const double third = std::pow(3.0, -(cell.levels[static_cast<size_t>(j)] + 1));
        points.row(row) = points.row(row + 1) = cell.centre.transpose();
        points(row++, j) -= third;
        points(row++, j) += third;
      }
    }
    const int affordable = max_evaluations_ - result_.evaluations;
    if (rows >= affordable) {  // The last sweep: no cell needs to be divided any more.
      if (affordable > 0) LUTHIER_RETURN_IF_ERROR(Evaluate(points.topRows(affordable)).status());
      return outcome(DirectOutcome::kLimit);
    }
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd values, Evaluate(points));
    for (const Division& division : divisions) Divide(division, points, values);
  }
}

}  // namespace

absl::StatusOr<DirectResult> MinimizeDirect(BatchFunction f, Index dim, const DirectOptions& options,
                                            const base::StopToken& stop) {
  LUTHIER_CHECK(dim >= 0 && options.epsilon >= 0.0);
  return Direct(f, dim, options).Run(stop);
}

}  // namespace luthier::math
