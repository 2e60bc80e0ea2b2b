#include "lib/pareto/net_order.h"

#include <algorithm>
#include <limits>

#include "lib/base/status_macros.h"
#include "lib/pareto/dominance.h"

namespace luthier::pareto {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Returns the ranks of each column's values, from 0 for the smallest to 1 for the largest.
MatrixXd ScaledRanks(const MatrixXd& points) {
  MatrixXd ranks = MatrixXd::Zero(points.rows(), points.cols());
  for (Index j = 0; j < points.cols(); ++j) {
    std::vector<double> values(points.col(j).begin(), points.col(j).end());
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.size() < 2) continue;
    for (Index i = 0; i < points.rows(); ++i) {
      const auto rank = std::lower_bound(values.begin(), values.end(), points(i, j)) - values.begin();
      ranks(i, j) = static_cast<double>(rank) / static_cast<double>(values.size() - 1);
    }
  }
  return ranks;
}

// Returns the first `count` rows of a layer's net; count <= rows.
absl::StatusOr<std::vector<Index>> Net(const MatrixXd& layer, Index count, const base::StopToken& stop) {
  const MatrixXd ranks = ScaledRanks(layer);
  VectorXd nearest = VectorXd::Constant(layer.rows(), std::numeric_limits<double>::infinity());
  std::vector<Index> order;
  Index next = 0;
  layer.col(0).maxCoeff(&next);
  const Index spread = std::min(count, kMostNetPoints);
  while (true) {
    order.push_back(next);
    nearest = nearest.cwiseMin((ranks.rowwise() - ranks.row(next)).rowwise().squaredNorm());
    nearest(next) = -1.0;
    if (static_cast<Index>(order.size()) == spread) break;
    LUTHIER_RETURN_IF_ERROR(stop.Poll(layer.size()));
    nearest.maxCoeff(&next);
  }
  for (Index i = 0; i < layer.rows() && static_cast<Index>(order.size()) < count; ++i) {
    if (nearest(i) >= 0.0) order.push_back(i);
  }
  return order;
}

}  // namespace

absl::StatusOr<std::vector<Index>> NetOrder(const Eigen::Ref<const MatrixXd>& points, Index count,
                                            const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int> layers, Layers(points, stop));
  std::vector<std::vector<Index>> members;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<size_t>(layers[i]);
    if (members.size() <= layer) members.resize(layer + 1);
    members[layer].push_back(static_cast<Index>(i));
  }
  std::vector<Index> order;
  for (const std::vector<Index>& layer : members) {
    const Index left = std::min(count, points.rows()) - static_cast<Index>(order.size());
    if (left <= 0) break;
    const MatrixXd of_layer = points(layer, Eigen::all);
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<Index> net,
                             Net(of_layer, std::min(left, static_cast<Index>(layer.size())), stop));
    for (const Index i : net) order.push_back(layer[static_cast<size_t>(i)]);
  }
  return order;
}

}  // namespace luthier::pareto
