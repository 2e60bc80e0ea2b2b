#ifndef LUTHIER_LIB_CRF_INFERENCE_TOKEN_GRAM_H_
#define LUTHIER_LIB_CRF_INFERENCE_TOKEN_GRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/inference/row_sums.h"

namespace luthier::crf {

// Products with X X', X the T x A matrix of a sequence's attributes: how many attributes each two of its tokens share
// (with values, sums of products of theirs). With it, scores and squared norms of a sequence's gradient X'R follow from
// its T x K residuals R without touching any weight.
//
// Sequences of at most kMaxCounted tokens keep these T x T numbers, as floats, counted at the first product; longer
// ones multiply by X' and X in turn: 10^4 tokens would need 400 MB, and more time.
class TokenGram {
 public:
  static constexpr int64_t kMaxCounted = 96;

  // `data` must outlive it. Counts nothing yet.
  TokenGram(const ChainData* data, const Kernels& kernels);

  // One thread's.
  class Scratch {
   public:
    Scratch(const ChainData* data, const Kernels& kernels);

   private:
    friend class TokenGram;
    struct Occurrence {
      int32_t token;
      int32_t before;  // Index of the occurrence before of the same attribute; -1: this is the first.
      double value;
    };
    std::vector<int32_t> last_;  // Index of each attribute's last occurrence in the current sequence; -1 in between.
    std::vector<Occurrence> occurrences_;
    std::unique_ptr<RowSums> row_sums_;  // Not null if there are long sequences.
  };

  // D = X X' R; both T x stride. CANCELLED when stopped. Several threads may ask for different
  // sequences at once.
  absl::Status Times(const Sequence& x, const double* r, Scratch* scratch, double* d, const base::StopToken& stop = {});

 private:
  void Count(const Sequence& x, Scratch* scratch);

  const ChainData* data_;
  const Kernels* kernels_;
  std::vector<int64_t> start_;  // Start of each sequence's T x T counts.
  std::unique_ptr<float[]> count_;
  std::vector<uint8_t> counted_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_INFERENCE_TOKEN_GRAM_H_
