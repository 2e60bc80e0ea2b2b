#include "lib/search/bo/acquisition/scalarized_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr double kSmallest = 1e-3;  // Least entry of a direction.
}  // namespace

VectorXd ScalarizedDraw::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd least = VectorXd::Constant(u.rows(), std::numeric_limits<double>::infinity());
  for (size_t j = 0; j < functions_.size(); ++j) {
    const auto c = static_cast<Index>(j);
    least = least.cwiseMin(((functions_[j].Values(u).array() - reference_(c)) / direction_(c)).matrix());
  }
  return least;
}

double ScalarizedDraw::Value(const VectorXd& u, VectorXd* gradient) const {
  double least = std::numeric_limits<double>::infinity();
  VectorXd slope;
  for (size_t j = 0; j < functions_.size(); ++j) {
    const auto c = static_cast<Index>(j);
    const double value =
        (functions_[j].Value(u, gradient != nullptr ? &slope : nullptr) - reference_(c)) / direction_(c);
    if (!(value < least)) continue;
    least = value;
    if (gradient != nullptr) *gradient = slope / direction_(c);
  }
  if (gradient != nullptr && !std::isfinite(least)) gradient->setZero(u.size());
  return least;
}

VectorXd PositiveDirection(Index objectives, base::RandomStream random) {
  VectorXd direction(objectives);
  for (double& entry : direction) entry = std::max(std::abs(random.Normal()), kSmallest);
  return direction.normalized();
}

}  // namespace luthier::search
