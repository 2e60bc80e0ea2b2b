#include "lib/stochastic/sampling_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/base/check.h"

namespace luthier::stochastic {

SamplingTree::SamplingTree(int64_t n) : size_(n) {
  LUTHIER_CHECK(n >= 1);
  leaves_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 2))));
  nodes_.resize(static_cast<size_t>(2 * leaves_));
}

void SamplingTree::Set(int64_t i, double weight) {
  LUTHIER_CHECK(i >= 0 && i < size_ && weight >= 0.0 && std::isfinite(weight));
  auto k = static_cast<size_t>(leaves_ + i);
  nodes_[k] = {weight, weight};
  for (k /= 2; k >= 1; k /= 2) {
    const Node& left = nodes_[2 * k];
    const Node& right = nodes_[2 * k + 1];
    nodes_[k] = {left.sum + right.sum, std::max(left.max, right.max)};
  }
}

int64_t SamplingTree::Find(double u) const {
  LUTHIER_CHECK(sum() > 0.0);
  double rest = u * sum();
  size_t k = 1;
  while (k < static_cast<size_t>(leaves_)) {
    const Node& left = nodes_[2 * k];
    const Node& right = nodes_[2 * k + 1];
    // Rounding may leave `rest` at the very end of an interval; a subtree without weight is never entered.
    if (rest < left.sum || right.sum == 0.0) {
      k = 2 * k;
    } else {
      rest -= left.sum;
      k = 2 * k + 1;
    }
  }
  return static_cast<int64_t>(k) - leaves_;
}

}  // namespace luthier::stochastic
