#ifndef LUTHIER_LIB_STOPPING_QUANTILE_H_
#define LUTHIER_LIB_STOPPING_QUANTILE_H_

#include <cstddef>
#include <functional>
#include <queue>
#include <vector>

namespace luthier::stopping {

// A fixed quantile of numbers that come one by one. With the numbers sorted as v_0 … v_{n-1} and h = (n-1) * share it
// is v_⌊h⌋ + (h - ⌊h⌋) (v_{⌊h⌋+1} - v_⌊h⌋): the median for share 1/2. O(log n) an Add; a Value O(log n) for each Add
// and each change of `beyond` since the last one.
class RunningQuantile {
 public:
  // 0 < share < 1.
  explicit RunningQuantile(double share) : share_(share) {}
  void Add(double value);  // Finite.
  size_t size() const { return low_.size() + high_.size(); }
  // Returns the quantile as if there were `beyond` more numbers, larger than all; infinity if it is among those. size()
  // > 0.
  double Value(size_t beyond = 0);

 private:
  double share_;
  std::priority_queue<double> low_;  // Below all of high_.
  std::priority_queue<double, std::vector<double>, std::greater<>> high_;
};

}  // namespace luthier::stopping

#endif  // LUTHIER_LIB_STOPPING_QUANTILE_H_
