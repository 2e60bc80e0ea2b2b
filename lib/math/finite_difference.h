#ifndef LUTHIER_LIB_MATH_FINITE_DIFFERENCE_H_
#define LUTHIER_LIB_MATH_FINITE_DIFFERENCE_H_

#include <string>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"

// Central differences, and the gradient check that objectives, kernels and trainers ship with.
namespace luthier::math {

// Returns (f(x + h e_j) - f(x - h e_j)) / 2h for every j, h = step * max(1, |x_j|). The default step, about eps^(1/3),
// balances the truncation error h^2 f'''/6 against the round-off eps |f| / h. Takes 2 d calls of f.
inline constexpr double kDefaultDifferenceStep = 6e-6;
Eigen::VectorXd CentralDifference(absl::FunctionRef<double(const Eigen::VectorXd&)> f, const Eigen::VectorXd& x,
                                  double step = kDefaultDifferenceStep);

// Does the same for a vector-valued f: rows are outputs, columns inputs.
Eigen::MatrixXd CentralJacobian(absl::FunctionRef<Eigen::VectorXd(const Eigen::VectorXd&)> f, const Eigen::VectorXd& x,
                                double step = kDefaultDifferenceStep);

struct GradientCheck {
  // max_j |analytic_j - numeric_j| / max(1, max_j |numeric_j|); +inf when something is not finite.
  double error = 0.0;
  Eigen::Index worst = 0;  // Coordinate of that maximum.
  Eigen::VectorXd analytic;
  Eigen::VectorXd numeric;
  // One line a person can act on: "gradient error 0.3 at coordinate 2: analytic 1.5, numeric 1.2".
  std::string Summary() const;
};

// Compares `analytic` with central differences of f at x.
GradientCheck CheckGradient(absl::FunctionRef<double(const Eigen::VectorXd&)> f, const Eigen::VectorXd& x,
                            const Eigen::VectorXd& analytic, double step = kDefaultDifferenceStep);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_FINITE_DIFFERENCE_H_
