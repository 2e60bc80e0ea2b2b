#include "lib/learn/standardize.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace luthier::learn {

Standardization FitStandardization(const SparseMatrix& x, const std::vector<int32_t>& rows) {
  LUTHIER_CHECK(!rows.empty());
  const double n = static_cast<double>(rows.size());
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(x.cols);
  Eigen::VectorXd low = Eigen::VectorXd::Constant(x.cols, INFINITY);
  Eigen::VectorXd high = Eigen::VectorXd::Constant(x.cols, -INFINITY);
  std::vector<int64_t> stored(x.cols, 0);
  for (const int32_t row : rows) {
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const int32_t j = x.column[e];
      sum[j] += x.value[e];
      low[j] = std::min(low[j], x.value[e]);
      high[j] = std::max(high[j], x.value[e]);
      ++stored[j];
    }
  }
  Standardization s;
  s.mean = sum / n;
  s.deviation = Eigen::VectorXd::Ones(x.cols);
  s.constant.assign(static_cast<size_t>(x.cols), false);
  Eigen::VectorXd squares = Eigen::VectorXd::Zero(x.cols);
  for (const int32_t row : rows) {
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const int32_t j = x.column[e];
      const double deviation = x.value[e] - s.mean[j];
      squares[j] += deviation * deviation;
    }
  }
  for (int32_t j = 0; j < x.cols; ++j) {
    const int64_t zeros = static_cast<int64_t>(rows.size()) - stored[j];
    if (zeros > 0) {
      low[j] = std::min(low[j], 0.0);
      high[j] = std::max(high[j], 0.0);
      squares[j] += static_cast<double>(zeros) * s.mean[j] * s.mean[j];
    }
    if (low[j] == high[j]) {
      s.mean[j] = low[j];  // Not the rounded mean: the centred column is exactly 0.
      s.constant[static_cast<size_t>(j)] = true;
      continue;
    }
    const double deviation = std::sqrt(squares[j] / n);
    if (deviation > 0.0 && std::isfinite(deviation)) s.deviation[j] = deviation;
  }
  return s;
}

}  // namespace luthier::learn
