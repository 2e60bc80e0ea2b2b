#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_STEP_RADIUS_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_STEP_RADIUS_H_

#include <algorithm>

#include "Eigen/Core"

// Local steps with and without bounds share places of points, and how the radius follows what a step has gained.
namespace luthier::search {

inline constexpr double kSamePlace = 1e-12;  // Max norm below which two points are the same.

// Returns the largest absolute value of the entries; 0 if there are none.
inline double MaxNorm(const Eigen::VectorXd& v) {
  return v.size() == 0 ? 0.0 : v.cwiseAbs().maxCoeff();
}

// Returns the first row within kSamePlace of u, or -1.
inline Eigen::Index FindRow(const Eigen::MatrixXd& points, const Eigen::VectorXd& u) {
  for (Eigen::Index i = 0; i < points.rows(); ++i) {
    if (MaxNorm(points.row(i).transpose() - u) < kSamePlace) return i;
  }
  return -1;
}

// Returns the radius after a step of this length (max norm) within `radius`, which gained `gain` where a model had
// predicted `predicted_gain`; -infinity: its trial failed. `at_boundary`: the step went as far as it could.
inline double RadiusAfter(double radius, double length, double gain, double predicted_gain, bool at_boundary) {
  // No gain was predicted: a gain is luck, and without one the box is known.
  const bool learnt = predicted_gain <= 0.0;
  if (learnt ? gain <= 0.0 : gain < 0.25 * predicted_gain) return 0.6 * std::min(radius, length);
  if (learnt || !at_boundary || !(gain > 0.75 * predicted_gain)) return radius;
  const double ratio = gain / predicted_gain;
  return radius * (ratio > 0.9 && ratio < 1.0 / 0.9 ? 4.0 : 3.0);
}

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_STEP_RADIUS_H_
