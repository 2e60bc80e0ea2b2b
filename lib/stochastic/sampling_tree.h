#ifndef LUTHIER_LIB_STOCHASTIC_SAMPLING_TREE_H_
#define LUTHIER_LIB_STOCHASTIC_SAMPLING_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace luthier::stochastic {

// n weights >= 0 under a complete binary tree whose inner nodes hold the sum and the maximum of their children. So the
// total never drifts from the weights, whatever the order of the updates, and draws proportional to the weights, their
// sum and their maximum all cost O(log n). Not thread-safe.
class SamplingTree {
 public:
  // All weights 0. n >= 1.
  explicit SamplingTree(int64_t n);

  int64_t size() const { return size_; }
  double weight(int64_t i) const { return nodes_[static_cast<size_t>(leaves_ + i)].sum; }
  double sum() const { return nodes_[1].sum; }
  double max() const { return nodes_[1].max; }

  // `weight` finite and >= 0.
  void Set(int64_t i, double weight);

  // The i whose share of [0, sum()) holds u * sum(), u in [0, 1). Never one of weight 0. sum() > 0.
  int64_t Find(double u) const;

 private:
  struct Node {
    double sum = 0.0;
    double max = 0.0;
  };

  int64_t size_;
  int64_t leaves_;  // A power of two; node 1 is the root, node k has children 2k and 2k + 1.
  std::vector<Node> nodes_;
};

}  // namespace luthier::stochastic

#endif  // LUTHIER_LIB_STOCHASTIC_SAMPLING_TREE_H_
