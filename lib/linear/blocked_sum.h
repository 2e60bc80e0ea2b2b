#ifndef LUTHIER_LIB_LINEAR_BLOCKED_SUM_H_
#define LUTHIER_LIB_LINEAR_BLOCKED_SUM_H_

#include <cstddef>
#include <vector>

namespace luthier::linear {

// Sum of doubles in a fixed order: plain sums of 256 terms, then a binary tree over the blocks. The rounding error
// grows with 256 + log2(n) rather than n, and the result depends on the terms and their order alone.
class BlockedSum {
 public:
  static constexpr int kBlock = 256;

  void Add(double term) {
    partial_ += term;
    if (++count_ == kBlock) Close();
  }

  // Adds the sum of the next kBlock terms, or of fewer, the last ones; only after whole blocks.
  void AddBlock(double sum) { blocks_.push_back(sum); }

  double Total() const {
    std::vector<double> level = blocks_;
    if (count_ > 0) level.push_back(partial_);
    if (level.empty()) return 0.0;
    while (level.size() > 1) {
      size_t out = 0;
      for (size_t k = 0; k < level.size(); k += 2) {
        level[out++] = k + 1 < level.size() ? level[k] + level[k + 1] : level[k];
      }
      level.resize(out);
    }
    return level[0];
  }

 private:
  void Close() {
    blocks_.push_back(partial_);
    partial_ = 0.0;
    count_ = 0;
  }

  std::vector<double> blocks_;
  double partial_ = 0.0;
  int count_ = 0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_BLOCKED_SUM_H_
