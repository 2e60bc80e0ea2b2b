#include "lib/data/standardize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::data {

namespace {

// Deviations below this have no finite inverse, or hardly one: the column, which is next to nothing, stays as it is.
constexpr double kSmallest = 1e-300;

}  // namespace

absl::StatusOr<Standardization> FitStandardization(const SparseMatrix& x, const std::vector<int32_t>& rows,
                                                   const base::StopToken& stop) {
  LUTHIER_CHECK(!rows.empty());
  const double n = static_cast<double>(rows.size());
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(x.cols);
  Eigen::VectorXd low = Eigen::VectorXd::Constant(x.cols, INFINITY);
  Eigen::VectorXd high = Eigen::VectorXd::Constant(x.cols, -INFINITY);
  std::vector<int64_t> stored(x.cols, 0);
  base::Pace pace(stop);
  for (const int32_t row : rows) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x.row_start[row + 1] - x.row_start[row] + 1));
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
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x.row_start[row + 1] - x.row_start[row] + 1));
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const int32_t j = x.column[e];
      const double deviation = x.value[e] - s.mean[j];
      squares[j] += deviation * deviation;
    }
  }
  std::vector<int32_t> extreme;
  for (int32_t j = 0; j < x.cols; ++j) {
    const int64_t zeros = static_cast<int64_t>(rows.size()) - stored[j];
    if (zeros > 0) {
      low[j] = std::min(low[j], 0.0);
      high[j] = std::max(high[j], 0.0);
      squares[j] += static_cast<double>(zeros) * s.mean[j] * s.mean[j];
    }
    if (low[j] == high[j]) {
      s.mean[j] = low[j];  // The rounded mean would not make the centred column exactly 0.
      s.constant[static_cast<size_t>(j)] = true;
      continue;
    }
    const double deviation = std::sqrt(squares[j] / n);
    // Squares below the smallest normal number have lost digits.
    if (squares[j] >= std::numeric_limits<double>::min() && std::isfinite(deviation)) {
      s.deviation[j] = deviation;
    } else {
      extreme.push_back(j);
    }
  }
  // The squares of these values overflow a double, so the unit is the largest distance from the mean.
  for (const int32_t j : extreme) {
    const double unit = std::max(high[j] - s.mean[j], s.mean[j] - low[j]);
    if (!(unit >= kSmallest) || !std::isfinite(unit)) continue;
    double squares_in_units = 0.0;
    for (const int32_t row : rows) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(16));  // A search in the row.
      const auto begin = x.column.begin() + x.row_start[row], end = x.column.begin() + x.row_start[row + 1];
      const auto found = std::lower_bound(begin, end, j);
      const double value = found != end && *found == j ? x.value[found - x.column.begin()] : 0.0;
      squares_in_units += (value - s.mean[j]) / unit * ((value - s.mean[j]) / unit);
    }
    s.deviation[j] = unit * std::sqrt(squares_in_units / n);
  }
  return s;
}

absl::StatusOr<Eigen::MatrixXd> DenseRows(const SparseMatrix& x, const std::vector<int32_t>& rows,
                                          const Standardization& map, const base::StopToken& stop) {
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(rows.size()), x.cols);
  base::Pace pace(stop);
  for (size_t i = 0; i < rows.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (x.cols + 1)));
    const auto row = static_cast<size_t>(rows[i]);
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      out(static_cast<Eigen::Index>(i), x.column[static_cast<size_t>(e)]) = x.value[static_cast<size_t>(e)];
    }
  }
  if (map.identity()) return out;
  for (Eigen::Index j = 0; j < out.cols(); ++j) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(out.rows()));
    const bool constant = !map.constant.empty() && map.constant[static_cast<size_t>(j)];
    if (constant) {
      out.col(j).setZero();
    } else {
      out.col(j) = (out.col(j).array() - map.mean[j]) / map.deviation[j];
    }
  }
  return out;
}

}  // namespace luthier::data
