#ifndef LUTHIER_LIB_CRF_FEATURES_SHAPE_H_
#define LUTHIER_LIB_CRF_FEATURES_SHAPE_H_

#include <cstdint>

namespace luthier::crf {

// The layout of a linear-chain model's weights. They are one vector: a row of `stride()` doubles
// for each attribute, then one for each previous label. Entry k of a row belongs to label k;
// entries from K on are always 0. So every row begins at a multiple of a vector register and fills
// a few whole ones.
struct Shape {
  int32_t attributes = 0;  // A
  int labels = 0;          // K

  static constexpr int kLanes = 8;

  int stride() const { return (labels + kLanes - 1) / kLanes * kLanes; }
  int64_t transitions() const { return static_cast<int64_t>(attributes) * stride(); }  // First of the K x K part.
  int64_t dim() const { return (static_cast<int64_t>(attributes) + labels) * stride(); }
  // Returns the number of weights that are not padding: A K + K^2, the dimension of the problem.
  int64_t parameters() const {
    return static_cast<int64_t>(attributes) * labels + static_cast<int64_t>(labels) * labels;
  }
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_SHAPE_H_
