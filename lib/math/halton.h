#ifndef LUTHIER_LIB_MATH_HALTON_H_
#define LUTHIER_LIB_MATH_HALTON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/strings/string_view.h"

namespace luthier::math {

// Halton's sequence: column j of point i is the radical inverse of i in the j-th prime b (Halton 1960),
//   i = sum_k a_k b^k   ->   sum_k a_k b^(-k-1)
// for up to kMaxHaltonDimension columns; further columns are independent uniforms. Point(i) is a function of i alone.
//
// Scrambled: the digit at each place of each column goes through a random permutation of its own, drawn from the stream
// named (seed, purpose); zeros beyond the first digit too, down to 2^-52 (Owen 2017, "A randomized Halton algorithm in
// R"). Each point is then uniform, while of b^m successive points that begin at a multiple of b^m each still falls in
// its own interval of length b^-m. Without scrambling columns of large primes are in step with each other for long.
// Immutable after construction; any thread.
class HaltonSequence {
 public:
  static constexpr int kMaxHaltonDimension = 30;

  // Unscrambled; its point 0 is the origin. dimension >= 0. Columns beyond the table are uniforms of the stream
  // (0, "halton/beyond").
  explicit HaltonSequence(int dimension);
  // Scrambled.
  HaltonSequence(int dimension, uint64_t seed, absl::string_view purpose);

  int dimension() const { return dimension_; }
  // Point `index`, any, as a column of dimension() coordinates in [0, 1).
  Eigen::VectorXd Point(uint64_t index) const;

 private:
  // The digits of one column: `permutation[place * base + digit]` replaces the digit at that place.
  struct Column {
    uint64_t base = 2;
    std::vector<uint8_t> permutation;  // Empty: not scrambled.
  };

  int dimension_;
  uint64_t seed_ = 0;
  std::string beyond_purpose_;
  std::vector<Column> columns_;
};

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_HALTON_H_
