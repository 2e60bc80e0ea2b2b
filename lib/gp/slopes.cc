#include "lib/gp/slopes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/base/check.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::VectorXd;

void Slopes::Add(Index point, const Eigen::Ref<const VectorXd>& direction, double value, double extra_variance) {
  const Index m = size();
  LUTHIER_CHECK(m == 0 || direction.size() == directions.cols());
  points.push_back(point);
  directions.conservativeResize(m + 1, direction.size());
  directions.row(m) = direction.transpose();
  values.conservativeResize(m + 1);
  values(m) = value;
  extra_variances.conservativeResize(m + 1);
  extra_variances(m) = extra_variance;
}

void Slopes::AddGradient(Index point, const Eigen::Ref<const VectorXd>& gradient, double extra_variance) {
  for (Index j = 0; j < gradient.size(); ++j) {
    if (std::isfinite(gradient(j))) Add(point, VectorXd::Unit(gradient.size(), j), gradient(j), extra_variance);
  }
}

Slopes Slopes::Select(const std::vector<Index>& kept) const {
  Slopes some;
  const Index m = static_cast<Index>(kept.size());
  some.directions.resize(m, directions.cols());
  some.values.resize(m);
  some.extra_variances.resize(m);
  for (Index i = 0; i < m; ++i) {
    const Index from = kept[static_cast<size_t>(i)];
    LUTHIER_CHECK(from >= 0 && from < size());
    some.points.push_back(points[static_cast<size_t>(from)]);
    some.directions.row(i) = directions.row(from);
    some.values(i) = values(from);
    some.extra_variances(i) = extra_variances(from);
  }
  return some;
}

bool Slopes::Valid(Index n, Index d) const {
  const Index m = size();
  LUTHIER_CHECK(static_cast<Index>(points.size()) == m && directions.rows() == m && extra_variances.size() == m);
  if (m == 0) return true;
  LUTHIER_CHECK(directions.cols() == d);
  for (Index point : points) LUTHIER_CHECK(point >= 0 && point < n);
  return directions.allFinite() && values.allFinite() && extra_variances.allFinite() &&
         extra_variances.minCoeff() >= 0.0 && directions.cwiseAbs().rowwise().maxCoeff().minCoeff() > 0.0;
}

std::vector<Index> SlopesWithin(const std::vector<Index>& points, const Eigen::Ref<const VectorXd>& scores,
                                Index max_rows, Index spared) {
  const Index n = scores.size();
  std::vector<Index> kept(points.size());
  std::iota(kept.begin(), kept.end(), 0);
  Index excess = n + static_cast<Index>(points.size()) - max_rows;
  if (excess <= 0) return kept;
  std::vector<Index> best(static_cast<size_t>(n));
  std::iota(best.begin(), best.end(), 0);
  std::sort(best.begin(), best.end(),
            [&](Index a, Index b) { return scores(a) != scores(b) ? scores(a) > scores(b) : a < b; });
  std::vector<bool> safe(static_cast<size_t>(n), false);
  for (Index i = 0; i < std::min(spared, n); ++i) safe[static_cast<size_t>(best[static_cast<size_t>(i)])] = true;
  std::vector<Index> oldest = kept;
  std::stable_sort(oldest.begin(), oldest.end(),
                   [&](Index a, Index b) { return points[static_cast<size_t>(a)] < points[static_cast<size_t>(b)]; });
  std::vector<bool> dropped(points.size(), false);
  for (Index i : oldest) {
    const Index point = points[static_cast<size_t>(i)];
    LUTHIER_CHECK(point >= 0 && point < n);
    if (excess <= 0) break;
    if (safe[static_cast<size_t>(point)]) continue;
    dropped[static_cast<size_t>(i)] = true;
    --excess;
  }
  std::erase_if(kept, [&](Index i) { return dropped[static_cast<size_t>(i)]; });
  return kept;
}

double DifferenceVariance(double value_noise, double step, double curvature) {
  LUTHIER_CHECK(value_noise >= 0.0 && step != 0.0);
  const double bias = 0.5 * step * curvature;
  return 2.0 * value_noise / (step * step) + bias * bias;
}

}  // namespace luthier::gp
