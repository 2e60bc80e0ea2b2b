#ifndef LUTHIER_LIB_DATA_STANDARDIZE_H_
#define LUTHIER_LIB_DATA_STANDARDIZE_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/dataset.h"

namespace luthier::data {

// The affine map x_j -> (x_j - mean_j) / deviation_j, or none (both empty). It is applied inside products with the
// matrix, so sparse data stay sparse although every entry is centred.
struct Standardization {
  Eigen::VectorXd mean;       // cols
  Eigen::VectorXd deviation;  // cols, > 0
  // Columns that were constant over the rows of the fit; empty if there are none. Centred they say nothing there, so a
  // model has no weight for them, whatever their values are elsewhere.
  std::vector<bool> constant;

  bool identity() const { return mean.size() == 0; }
};

// Computes mean and population standard deviation of every column over `rows` (>= 1) alone: for validation data they
// must come from the training rows. Zeros that are not stored count. A constant column keeps deviation 1, so it becomes
// 0. Makes two passes over the entries in a fixed order. Returns CANCELLED when stopped.
absl::StatusOr<Standardization> FitStandardization(const SparseMatrix& x, const std::vector<int32_t>& rows,
                                                   const base::StopToken& stop = {});

// Returns the mapped values of `rows`: rows.size() x cols, dense. Columns that are `constant` become 0. Returns
// CANCELLED when stopped.
absl::StatusOr<Eigen::MatrixXd> DenseRows(const SparseMatrix& x, const std::vector<int32_t>& rows,
                                          const Standardization& map, const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_STANDARDIZE_H_
