#ifndef LUTHIER_LIB_CRF_INFERENCE_ROW_SUMS_H_
#define LUTHIER_LIB_CRF_INFERENCE_ROW_SUMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"

namespace luthier::crf {

// Sums over the tokens of a sequence for each of its distinct attributes, such as a gradient by
// rows. It takes one sequence after the other. An object is for one thread.
class RowSums {
 public:
  // `data` must outlive it.
  RowSums(const ChainData* data, const Kernels& kernels);

  // Returns the distinct attributes of the sequence in order of first occurrence.
  const std::vector<int32_t>& Collect(const Sequence& x);
  const std::vector<int32_t>& rows() const { return rows_; }
  // Returns `stride` entries for each of rows(): the sum of value times row t of `tokens`, which is
  // T x stride, over the tokens t with that attribute. Call it after Collect of this sequence.
  // Returns CANCELLED when stopped, here and below.
  absl::StatusOr<const double*> Sum(const Sequence& x, const double* tokens, const base::StopToken& stop = {});
  // Sets row t of `tokens` to the sum, over the attributes of token t, of value times the result of
  // Sum. Call it after Sum of this sequence.
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

// Returns the number of distinct attributes of each sequence.
std::vector<int64_t> CountDistinct(const ChainData& data);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_INFERENCE_ROW_SUMS_H_
