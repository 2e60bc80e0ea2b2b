#include "lib/pareto/hypervolume.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/check.h"

namespace luthier::pareto {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Points above the origin, a column each, so that a point is contiguous.
using Points = MatrixXd;

// Computes volumes above the origin. `steps` is what is left; below 0 the results are void.
class Volumes {
 public:
  explicit Volumes(int64_t steps) : steps_(steps) {}
  bool exceeded() const { return steps_ < 0; }

  // Returns the volume of the first `m` coordinates of `points`.
  double Of(Points points, Index m) {
    const Index n = points.cols();
    steps_ -= n * m;
    if (exceeded() || n == 0) return 0.0;
    if (n == 1) return points.col(0).head(m).prod();
    if (m == 1) return points.row(0).maxCoeff();
    SortByLast(&points, m);
    if (m == 2) return Sweep(points);
    // From the lowest to the highest in the last coordinate: below a point's own, all later ones are above.
    double volume = 0.0;
    for (Index i = 0; i < n; ++i) {
      volume += points(m - 1, i) * Exclusive(points.rightCols(n - 1 - i), points.col(i), m - 1);
      if (exceeded()) return 0.0;
    }
    return volume;
  }

  // Returns the volume of the first `m` coordinates that `point` has beyond `others`.
  double Exclusive(const Eigen::Ref<const Points>& others, const Eigen::Ref<const VectorXd>& point, Index m) {
    Points limited = others.topRows(m).cwiseMin(point.head(m).replicate(1, others.cols()));
    KeepFront(&limited);
    return point.head(m).prod() - Of(std::move(limited), m);
  }

 private:
  static void SortByLast(Points* points, Index m) {
    std::vector<Index> order(static_cast<size_t>(points->cols()));
    std::iota(order.begin(), order.end(), Index{0});
    std::sort(order.begin(), order.end(), [&](Index a, Index b) {
      for (Index j = m; j-- > 0;) {
        if ((*points)(j, a) != (*points)(j, b)) return (*points)(j, a) < (*points)(j, b);
      }
      return a < b;
    });
    *points = points->topRows(m)(Eigen::all, order).eval();
  }

  // Adds the strips of two coordinates, sorted by the second one.
  static double Sweep(const Points& points) {
    double volume = 0.0, width = 0.0;
    for (Index i = points.cols(); i-- > 0;) {
      const double below = i > 0 ? points(1, i - 1) : 0.0;
      width = std::max(width, points(0, i));
      volume += width * (points(1, i) - below);
    }
    return volume;
  }

  // Drops points that others make redundant.
  void KeepFront(Points* points) {
    Index kept = 0;
    for (Index i = 0; i < points->cols(); ++i) {
      steps_ -= kept * points->rows();
      if (exceeded()) return;
      const auto covers = [&](Index a, Index b) { return (points->col(a).array() >= points->col(b).array()).all(); };
      bool covered = false;
      for (Index k = 0; k < kept && !covered; ++k) covered = covers(k, i);
      if (covered) continue;
      Index end = 0;
      for (Index k = 0; k < kept; ++k) {
        if (covers(i, k)) continue;
        if (end != k) points->col(end) = points->col(k);
        ++end;
      }
      if (end != i) points->col(end) = points->col(i);
      kept = end + 1;
    }
    points->conservativeResize(Eigen::NoChange, kept);
  }

  int64_t steps_;
};

// Returns the points above the reference, relative to it.
Points Above(const Eigen::Ref<const MatrixXd>& points, const Eigen::Ref<const VectorXd>& reference) {
  LUTHIER_CHECK(points.cols() == reference.size());
  std::vector<Index> rows;
  for (Index i = 0; i < points.rows(); ++i) {
    if ((points.row(i).transpose().array() > reference.array()).all()) rows.push_back(i);
  }
  return points(rows, Eigen::all).transpose().colwise() - reference;
}

}  // namespace

std::optional<double> Hypervolume(const Eigen::Ref<const MatrixXd>& points, const Eigen::Ref<const VectorXd>& reference,
                                  int64_t most_steps) {
  if (reference.size() == 0) return 0.0;
  Volumes volumes(most_steps);
  const double volume = volumes.Of(Above(points, reference), reference.size());
  return volumes.exceeded() ? std::nullopt : std::optional<double>(volume);
}

std::optional<double> HypervolumeGain(const Eigen::Ref<const MatrixXd>& points,
                                      const Eigen::Ref<const VectorXd>& reference,
                                      const Eigen::Ref<const VectorXd>& point, int64_t most_steps) {
  LUTHIER_CHECK(point.size() == reference.size());
  if (!(point.array() > reference.array()).all()) return 0.0;
  Volumes volumes(most_steps);
  const double gain = volumes.Exclusive(Above(points, reference), point - reference, reference.size());
  return volumes.exceeded() ? std::nullopt : std::optional<double>(std::max(gain, 0.0));
}

}  // namespace luthier::pareto
