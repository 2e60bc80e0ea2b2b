#ifndef LUTHIER_LIB_SPECTRAL_BIT_ENCODING_H_
#define LUTHIER_LIB_SPECTRAL_BIT_ENCODING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/spectral/parity.h"
#include "lib/study/encoding.h"

namespace luthier::spectral {

// An ordered parameter with more levels than this is cut into cells like a continuous one.
inline constexpr int64_t kMaxOrderedLevels = 64;

// Bits of one parameter, all independent and uniform: only then are parities orthonormal.
//   code      sum_j 2^(count-1-j) [x_(begin+j) = -1]: plain binary, the first bit most significant, so that its parity
//             is "lower half against upper half"
//   ordered   of k levels (int, ordinal, stepped float, bool): level floor(code k / 2^count), count = ceil(log2 k):
//             levels are equally likely up to a factor 2, and their order is kept
//   unordered of k labels: permutation[code mod k], seeded; the first 2^count - k of the permutation have double
//             weight, and the default label comes first
//   cells     continuous ones, integers on a log scale, and ordered ones of more than kMaxOrderedLevels: 2^count equal
//             cells of the compact coordinate (lib/study/encoding.h), and a position inside
struct BitGroup {
  int parameter = 0;   // Index in the space.
  int coordinate = 0;  // Compact.
  int begin = 0;       // First bit.
  int count = 0;
  int64_t levels = 0;  // 0: cells.
  bool unordered = false;
  std::vector<int> level_of_code;  // 2^count; cells: the cell.
};

// Constants have no bits. Inactive parameters have theirs, which decoding ignores: they act as dummies. Immutable.
class BitEncoding {
 public:
  // `float_bits`: bits of a parameter that is cut into cells, 1 … 10; 0: 2, or 3 for at most 4 parameters.
  BitEncoding(const study::SearchSpace& space, int float_bits, uint64_t seed);

  int bits() const { return bits_; }
  const study::Encoding& encoding() const { return encoding_; }
  const std::vector<BitGroup>& groups() const { return groups_; }
  const BitGroup& GroupOf(int bit) const {
    return groups_[static_cast<size_t>(group_of_bit_[static_cast<size_t>(bit)])];
  }

  int Code(const BitGroup& group, const Bits& x) const;
  // The setting of x; positions inside cells from `random`, one uniform for each group.
  study::Parameters Decode(const Bits& x, base::RandomStream& random) const;
  // The level, or cell, of a valid value of the group's parameter.
  int LevelOf(const BitGroup& group, const study::ParameterValue& value) const;

  // "batch_norm", "lr:bit1(high half)", "optimizer:bit2".
  std::string BitName(int bit) const;
  // Describes for people the values of a parameter that remain when the bits in `mask` (as in a code) are fixed to
  // those of `code`: "true", "sgd or adam", "0.01 to 1".
  std::string Describe(const BitGroup& group, int mask, int code) const;

 private:
  study::Encoding encoding_;
  std::vector<BitGroup> groups_;
  std::vector<int> group_of_bit_;
  int bits_ = 0;
};

}  // namespace luthier::spectral

#endif  // LUTHIER_LIB_SPECTRAL_BIT_ENCODING_H_
