#ifndef LUTHIER_LIB_MATH_SOBOL_H_
#define LUTHIER_LIB_MATH_SOBOL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/strings/string_view.h"

namespace luthier::math {

// Sobol's sequence with the direction numbers of Joe & Kuo 2008 ("Constructing Sobol sequences with better
// two-dimensional projections", criterion D6), for up to kMaxSobolDimension columns; further columns are independent
// uniforms. Point(i) is a function of i alone (Gray-code order, no state): any worker may take any index.
//
// Scrambled: Matousek's linear matrix scramble (a random lower triangular bit matrix with unit diagonal per column)
// and a digital shift, both drawn from the stream named (seed, purpose). A scrambled sequence is still a digital net:
// each of the first 2^m points falls in its own interval of length 2^-m in every column, and each point alone is
// uniform. Immutable after construction; any thread.
class SobolSequence {
 public:
  static constexpr int kMaxSobolDimension = 512;
  static constexpr int kIndexBits = 32;  // Indices below 2^32.
  static constexpr int kDepth = 52;      // Bits of a coordinate.

  // Unscrambled; its point 0 is the origin. dimension >= 0. Columns beyond the table are uniforms of the stream
  // (0, "sobol/beyond").
  explicit SobolSequence(int dimension);
  // Scrambled; coordinates lie strictly inside (0, 1).
  SobolSequence(int dimension, uint64_t seed, absl::string_view purpose);

  int dimension() const { return dimension_; }
  // Point `index`, as a column of dimension() coordinates in [0, 1).
  Eigen::VectorXd Point(uint64_t index) const;
  // Points first … first+count-1 as rows (count x dimension()). The same numbers as Point().
  Eigen::MatrixXd Points(uint64_t first, int count) const;

 private:
  double ToUnit(uint64_t bits) const;
  double Beyond(uint64_t index, int column) const;

  int dimension_;
  int table_dimension_;
  bool scrambled_;
  uint64_t seed_ = 0;
  std::string beyond_purpose_;
  std::vector<uint64_t> directions_;  // table_dimension_ x kIndexBits, row-major; the top bit is bit kDepth-1.
  std::vector<uint64_t> shift_;       // table_dimension_.
};

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_SOBOL_H_
