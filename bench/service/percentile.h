#ifndef LUTHIER_BENCH_SERVICE_PERCENTILE_H_
#define LUTHIER_BENCH_SERVICE_PERCENTILE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace luthier {

// Returns the value below which a share `p` (0 to 1) of `values` lies, in their unit; 0 where there are none. Reorders
// them.
inline double Percentile(std::vector<double>& values, double p) {
  if (values.empty()) return 0.0;
  const auto at = static_cast<size_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace luthier

#endif  // LUTHIER_BENCH_SERVICE_PERCENTILE_H_
