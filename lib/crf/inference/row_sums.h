#ifndef LUTHIER_LIB_CRF_INFERENCE_ROW_SUMS_H_
#define LUTHIER_LIB_CRF_INFERENCE_ROW_SUMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"

namespace luthier::crf {

// The distinct attributes of one sequence after the other, and what each gets of something that its tokens have: a
// gradient by rows. One thread's scratch.
class RowSums {
 public:
  // `data` must outlive it.
  RowSums(const ChainData* data, const Kernels& kernels);

  // Attributes of the sequence in order of first occurrence.
  const std::vector<int32_t>& Collect(const Sequence& x);
  const std::vector<int32_t>& rows() const { return rows_; }
  // Returns `stride` entries for each of rows(): the sum of value times R_t (T x stride) over the tokens with that
  // attribute. After Collect of this sequence. CANCELLED when stopped, here and below.
  absl::StatusOr<const double*> Sum(const Sequence& x, const double* tokens, const base::StopToken& stop = {});
  // Sets for each token the sum of value times what Sum gave its attributes. After Sum of this sequence.
  absl::Status Spread(const Sequence& x, double* tokens, const base::StopToken& stop = {}) const;

 private:
  const ChainData* data_;
  const Kernels* kernels_;
  int stride_;
  std::vector<int32_t> slot_;     // Place of each attribute of the current sequence; -1 in between.
  std::vector<int32_t> entries_;  // Slot of each entry of the current sequence.
  std::vector<int32_t> rows_;
  AlignedDoubles sums_;
};

// Distinct attributes of each sequence.
std::vector<int64_t> CountDistinct(const ChainData& data);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_INFERENCE_ROW_SUMS_H_
