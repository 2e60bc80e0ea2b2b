#ifndef LUTHIER_LIB_GP_SLOPES_H_
#define LUTHIER_LIB_GP_SLOPES_H_

#include <vector>

#include "Eigen/Core"

// Observed derivatives of the function a Gaussian process models: "first-order" data. Every slope belongs to a point
// whose value is observed too. Slopes are in units of the (standardised) output per unit of the cube.
namespace luthier::gp {

// Row i: the derivative of f at point points[i] along directions.row(i) was values(i). A full gradient is d rows along
// the axes. Directions should have length 1: the slope noise is that of a slope along whatever is given.
struct Slopes {
  std::vector<Eigen::Index> points;  // m, rows of the values' points.
  Eigen::MatrixXd directions;        // m x d, unscaled.
  Eigen::VectorXd values;            // m.
  // m, >= 0, added to the slope noise's variance: from error bounds of inexact slopes.
  Eigen::VectorXd extra_variances;

  Eigen::Index size() const { return values.size(); }
  // Adds one more row.
  void Add(Eigen::Index point, const Eigen::Ref<const Eigen::VectorXd>& direction, double value,
           double extra_variance = 0.0);
  // Adds a row along the axis of every finite component of the gradient (d); components that are not finite are
  // dropped.
  void AddGradient(Eigen::Index point, const Eigen::Ref<const Eigen::VectorXd>& gradient, double extra_variance = 0.0);
  // Returns the rows at the given positions, in that order.
  Slopes Select(const std::vector<Eigen::Index>& kept) const;
  // Returns true if every number is finite, no direction is 0 and no variance negative. CHECKs sizes and that points
  // are among n.
  bool Valid(Eigen::Index n, Eigen::Index d) const;
};

// Returns the slopes to keep (ascending positions) so that n values and the slopes make at most `max_rows` rows. Points
// are in the order of completion, and the slopes of the oldest points are dropped first. The `spared` points of the
// largest `scores` (n, larger is better; ties to the older) keep theirs whatever the limit.
std::vector<Eigen::Index> SlopesWithin(const std::vector<Eigen::Index>& points,
                                       const Eigen::Ref<const Eigen::VectorXd>& scores, Eigen::Index max_rows = 2500,
                                       Eigen::Index spared = 20);

// Variance of the error of a forward difference over `step`: 2 value_noise/step^2 + (step curvature/2)^2, curvature a
// typical second derivative along the step.
double DifferenceVariance(double value_noise, double step, double curvature);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_SLOPES_H_
