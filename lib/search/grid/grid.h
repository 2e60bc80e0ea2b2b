#ifndef LUTHIER_LIB_SEARCH_GRID_GRID_H_
#define LUTHIER_LIB_SEARCH_GRID_GRID_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/study/encoding.h"

namespace luthier::search {

// Numbers every combination of levels of a search space. A continuous parameter has `levels` points at equal distances
// in the unit interval of its scale, both ends included, or, with `centres`, the middles of `levels` equal cells. Every
// other parameter has all its values.
//
// Conditions make a forest: each parameter has at most one parent. So the settings of a tree with root p are counted by
//   N(p) = sum over levels v of p of prod over children c active at v of N(c)
// and the space has prod over roots of N(root). The same sums turn a number into a setting. Combinations that differ
// only in inactive parameters count once. Immutable after construction; any thread.
class Grid {
 public:
  // levels >= 2.
  Grid(study::Encoding encoding, int levels, bool centres = false);

  // Returns the number of settings; std::nullopt above 2^63-1.
  std::optional<int64_t> size() const { return size_; }
  // Returns setting number `index` in [0, size()), in lexicographic order: the last parameter varies fastest.
  study::Parameters Point(int64_t index) const;

 private:
  struct Node {
    int64_t levels = 0;                            // Levels of each of this parameter's scalars.
    std::optional<int64_t> values;                 // Its values: levels, of a vector to the power of its length.
    int coordinate = -1;                           // Its (first) compact coordinate when it is continuous.
    std::map<int64_t, std::vector<int>> children;  // Level -> parameters active there. Other levels have none.
    std::optional<int64_t> count;                  // N(p).
  };

  std::optional<int64_t> CountAtLevel(const std::vector<int>& children) const;
  // Sets parameter `p` and those below it to combination `index` of N(p).
  void SetTree(int p, int64_t index, study::Parameters* values) const;
  void SetAll(const std::vector<int>& trees, int64_t index, study::Parameters* values) const;

  study::Encoding encoding_;
  int levels_;
  bool centres_;
  std::vector<Node> nodes_;
  std::vector<int> roots_;
  std::optional<int64_t> size_;
};

// A permutation of [0, size): four rounds of a Feistel network on the smallest even number of bits that holds size,
// with cycle walking (Black & Rogaway 2002, "Ciphers with arbitrary finite domains"). Nothing is stored. 1 <= size <=
// 2^62.
class Shuffle {
 public:
  Shuffle(int64_t size, uint64_t seed);
  int64_t operator()(int64_t index) const;

 private:
  uint64_t Encrypt(uint64_t block) const;

  int64_t size_;
  int half_bits_;
  uint32_t key_[2];
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_GRID_GRID_H_
