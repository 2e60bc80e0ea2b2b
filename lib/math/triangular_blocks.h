#ifndef LUTHIER_LIB_MATH_TRIANGULAR_BLOCKS_H_
#define LUTHIER_LIB_MATH_TRIANGULAR_BLOCKS_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Cholesky factor, its inverse and the product of that with itself: the parts of a likelihood and its gradient, n^3/3
// flops each. Up to kTriangularBlock rows they are computed by loops over four columns and three registers of rows
// whose sums stay in registers, without the packing of a general matrix product, which costs more than it saves for so
// few rows; beyond, by halving, the rest being Eigen's matrix products. All of them poll `stop` after each block and
// each product, at most (n/2)^3 multiplications apart. Results have no meaning once a function returned CANCELLED.
namespace luthier::math {

inline constexpr Eigen::Index kTriangularBlock = 320;

using TriangularRef = Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>>;
using ConstTriangularRef = Eigen::Ref<const Eigen::MatrixXd, 0, Eigen::OuterStride<>>;

// Memory that calls reuse. For one thread.
struct TriangularSpace {
  std::vector<double> first, second;
};

// Replaces the lower triangle of c (n x n) by L, L L' = C. Entries above the diagonal are neither read nor kept.
// Returns false if a pivot is not above 0 or not finite; c is spoilt then.
absl::StatusOr<bool> FactorLowerInPlace(TriangularRef c, TriangularSpace* space, const base::StopToken& stop);

// Computes L^-T, upper triangular with zeros below the diagonal, of a lower triangular L (n x n; nothing above the
// diagonal is read).
absl::Status InverseTransposed(const ConstTriangularRef& lower, TriangularSpace* space, Eigen::MatrixXd* upper,
                               const base::StopToken& stop);

// Adds scale U U' to the lower triangle of out, for an upper triangular U with zeros below its diagonal: for U = L^-T
// that is scale (L L')^-1. The strict upper triangle of out is unspecified after.
absl::Status AddSquareOfUpper(const ConstTriangularRef& upper, double scale, TriangularSpace* space, TriangularRef out,
                              const base::StopToken& stop);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_TRIANGULAR_BLOCKS_H_
