#include "lib/math/finite_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"

namespace luthier::math {

Eigen::MatrixXd CentralJacobian(absl::FunctionRef<Eigen::VectorXd(const Eigen::VectorXd&)> f, const Eigen::VectorXd& x,
                                double step) {
  Eigen::MatrixXd jacobian;
  Eigen::VectorXd moved = x;
  for (Eigen::Index j = 0; j < x.size(); ++j) {
    const double h = step * std::max(1.0, std::abs(x(j)));
    const double up = x(j) + h;
    const double down = x(j) - h;
    moved(j) = up;
    const Eigen::VectorXd high = f(moved);
    moved(j) = down;
    const Eigen::VectorXd low = f(moved);
    moved(j) = x(j);
    if (j == 0) jacobian.resize(high.size(), x.size());
    jacobian.col(j) = (high - low) / (up - down);  // The step as it was rounded.
  }
  return jacobian;
}

Eigen::VectorXd CentralDifference(absl::FunctionRef<double(const Eigen::VectorXd&)> f, const Eigen::VectorXd& x,
                                  double step) {
  if (x.size() == 0) return Eigen::VectorXd(0);
  return CentralJacobian([&](const Eigen::VectorXd& at) { return Eigen::VectorXd::Constant(1, f(at)).eval(); }, x, step)
      .row(0)
      .transpose();
}

GradientCheck CheckGradient(absl::FunctionRef<double(const Eigen::VectorXd&)> f, const Eigen::VectorXd& x,
                            const Eigen::VectorXd& analytic, double step) {
  LUTHIER_CHECK(analytic.size() == x.size());
  GradientCheck check;
  check.analytic = analytic;
  check.numeric = CentralDifference(f, x, step);
  double scale = 1.0;
  for (Eigen::Index j = 0; j < x.size(); ++j) scale = std::max(scale, std::abs(check.numeric(j)));
  for (Eigen::Index j = 0; j < x.size(); ++j) {
    double error = std::abs(check.analytic(j) - check.numeric(j)) / scale;
    if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
    if (error > check.error) {
      check.error = error;
      check.worst = j;
    }
  }
  return check;
}

std::string GradientCheck::Summary() const {
  if (analytic.size() == 0) return "gradient of no coordinates";
  return absl::StrCat("gradient error ", error, " at coordinate ", worst, ": analytic ", analytic(worst), ", numeric ",
                      numeric(worst));
}

}  // namespace luthier::math
