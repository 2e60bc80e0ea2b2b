#include "lib/pareto/dominance.h"

#include <algorithm>
#include <numeric>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::pareto {

using Eigen::Index;
using Eigen::MatrixXd;

namespace {

// Returns the rows from the largest to the smallest in the order of their columns; equal rows ascending. No row is
// dominated by a later one.
std::vector<Index> Descending(const Eigen::Ref<const MatrixXd>& points) {
  std::vector<Index> order(static_cast<size_t>(points.rows()));
  std::iota(order.begin(), order.end(), Index{0});
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    for (Index j = 0; j < points.cols(); ++j) {
      if (points(a, j) != points(b, j)) return points(a, j) > points(b, j);
    }
    return a < b;
  });
  return order;
}

}  // namespace

bool Dominates(const Eigen::Ref<const MatrixXd>& points, Index a, Index b) {
  bool better = false;
  for (Index j = 0; j < points.cols(); ++j) {
    if (points(a, j) < points(b, j)) return false;
    better = better || points(a, j) > points(b, j);
  }
  return better;
}

absl::StatusOr<std::vector<int>> Layers(const Eigen::Ref<const MatrixXd>& points, const base::StopToken& stop) {
  std::vector<int> layer_of(static_cast<size_t>(points.rows()), 0);
  std::vector<std::vector<Index>> layers;  // Members in order of `Descending`.
  base::Pace pace(stop);
  for (const Index row : Descending(points)) {
    const auto dominated = [&](const std::vector<Index>& layer) {
      // In a layer of two columns the second never falls, so that its last member dominates whatever any does.
      if (points.cols() <= 2) return Dominates(points, layer.back(), row);
      return std::any_of(layer.rbegin(), layer.rend(), [&](Index other) { return Dominates(points, other, row); });
    };
    size_t low = 0, high = layers.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const auto size = points.cols() <= 2 ? 1 : static_cast<int64_t>(layers[middle].size());
      LUTHIER_RETURN_IF_ERROR(pace.Poll(1 + size * points.cols()));
      if (dominated(layers[middle])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == layers.size()) layers.emplace_back();
    layers[low].push_back(row);
    layer_of[static_cast<size_t>(row)] = static_cast<int>(low);
  }
  return layer_of;
}

std::vector<Index> Front(const Eigen::Ref<const MatrixXd>& points) {
  std::vector<Index> front;
  for (const Index row : Descending(points)) {
    const bool beaten = std::any_of(front.begin(), front.end(), [&](Index other) {
      return Dominates(points, other, row) || points.row(other) == points.row(row);
    });
    if (!beaten) front.push_back(row);
  }
  std::sort(front.begin(), front.end());
  return front;
}

}  // namespace luthier::pareto
