#include "lib/pareto/crowding.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace luthier::pareto {

using Eigen::Index;
using Eigen::VectorXd;

VectorXd CrowdingDistances(const Eigen::Ref<const Eigen::MatrixXd>& points) {
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  const Index n = points.rows();
  VectorXd room = VectorXd::Zero(n);
  if (n <= 2) return VectorXd::Constant(n, kEnd);
  std::vector<Index> order(static_cast<size_t>(n));
  for (const auto column : points.colwise()) {
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return column(a) < column(b); });
    // Halves, since a difference may overflow.
    const double extent = 0.5 * column(order.back()) - 0.5 * column(order.front());
    if (!(extent > 0.0)) continue;
    room(order.front()) = room(order.back()) = kEnd;
    for (size_t k = 1; k + 1 < order.size(); ++k) {
      room(order[k]) += (0.5 * column(order[k + 1]) - 0.5 * column(order[k - 1])) / extent;
    }
  }
  return room;
}

}  // namespace luthier::pareto
