#include "lib/pareto/reference_lines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "Eigen/LU"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::pareto {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kOtherAxes = 1e6;     // Weight of the other columns' shortfalls where an extreme point is sought.
constexpr double kLeastUnit = 1e-300;  // The inverse of a smaller one might overflow.

// Returns binomial(divisions + objectives - 1, objectives - 1), at most `most` + 1.
int64_t LatticeSize(int objectives, int divisions, int64_t most) {
  int64_t size = 1;
  for (int k = 1; k < objectives; ++k) {
    size = size * (divisions + k) / k;  // binomial(divisions + k, k), a whole number.
    if (size > most) return most + 1;
  }
  return size;
}

// Returns the most divisions, at least `least`, of which the lattice has at most `most` points; `least` if none has.
int MostDivisions(int objectives, int least, int64_t most) {
  int divisions = least;
  while (LatticeSize(objectives, divisions + 1, most) <= most) ++divisions;
  return divisions;
}

// Writes all ways to share `left` among the coordinates from `column` on.
void Fill(int divisions, int left, Index column, VectorXd* point, MatrixXd* rows, Index* next) {
  if (column + 1 == point->size()) {
    (*point)(column) = static_cast<double>(left) / divisions;
    rows->row((*next)++) = point->transpose();
    return;
  }
  for (int share = 0; share <= left; ++share) {
    (*point)(column) = static_cast<double>(share) / divisions;
    Fill(divisions, left - share, column + 1, point, rows, next);
  }
}

}  // namespace

MatrixXd SimplexLattice(int objectives, int divisions) {
  LUTHIER_CHECK(objectives >= 1 && divisions >= 1);
  MatrixXd rows(LatticeSize(objectives, divisions, std::numeric_limits<int32_t>::max()), objectives);
  VectorXd point(objectives);
  Index next = 0;
  Fill(divisions, divisions, 0, &point, &rows, &next);
  return rows;
}

MatrixXd ReferenceDirections(int objectives, int most) {
  LUTHIER_CHECK(objectives >= 2);
  const int outer = MostDivisions(objectives, 1, most);
  const MatrixXd border = SimplexLattice(objectives, outer);
  const int64_t left = most - border.rows();
  if (outer >= objectives || LatticeSize(objectives, 1, left) > left) return border;
  MatrixXd inner = SimplexLattice(objectives, MostDivisions(objectives, 1, left));
  inner = (0.5 * inner.array() + 0.5 / objectives).matrix();
  MatrixXd both(border.rows() + inner.rows(), objectives);
  both << border, inner;
  return both;
}

MatrixXd Normalized(const Eigen::Ref<const MatrixXd>& points) {
  const Index m = points.cols();
  if (points.rows() == 0) return points;
  // Halves, since a difference may overflow. All units below are such halves, so they cancel out.
  const MatrixXd half = 0.5 * points;
  const Eigen::RowVectorXd ideal = half.colwise().maxCoeff();
  MatrixXd shortfall = (-half).rowwise() + ideal;
  VectorXd unit = shortfall.colwise().maxCoeff().transpose();
  for (double& length : unit) length = length > kLeastUnit ? length : 1.0;
  shortfall = shortfall * unit.cwiseInverse().asDiagonal();
  MatrixXd extremes(m, m);
  for (Index axis = 0; axis < m; ++axis) {
    VectorXd weights = VectorXd::Constant(m, kOtherAxes);
    weights(axis) = 1.0;
    Index best = 0;
    (shortfall * weights.asDiagonal()).rowwise().maxCoeff().minCoeff(&best);
    extremes.row(axis) = shortfall.row(best);
  }
  const Eigen::FullPivLU<MatrixXd> plane(extremes);
  if (!plane.isInvertible()) return shortfall;
  const VectorXd inverse = plane.solve(VectorXd::Ones(m));  // The cuts' inverses.
  if (!inverse.allFinite() || !(inverse.array() > 0.0).all()) return shortfall;
  // The worst point is at 1 in every column; no cut lies beyond it.
  return shortfall * inverse.cwiseMax(1.0).asDiagonal();
}

absl::StatusOr<std::vector<Niche>> Niches(const Eigen::Ref<const MatrixXd>& normalized,
                                          const Eigen::Ref<const MatrixXd>& directions, const base::StopToken& stop) {
  const VectorXd lengths = directions.rowwise().norm();
  std::vector<Niche> niches(static_cast<size_t>(normalized.rows()));
  base::Pace pace(stop);
  for (Index i = 0; i < normalized.rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(4 * directions.size()));
    Niche& niche = niches[static_cast<size_t>(i)];
    niche.distance = std::numeric_limits<double>::infinity();
    for (Index k = 0; k < directions.rows(); ++k) {
      const double along = normalized.row(i).dot(directions.row(k)) / (lengths(k) * lengths(k));
      const double distance = (normalized.row(i) - along * directions.row(k)).norm();
      if (distance < niche.distance) niche = {k, distance};
    }
  }
  return niches;
}

}  // namespace luthier::pareto
