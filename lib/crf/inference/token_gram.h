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

// Products with the Gram matrix X X' of a sequence's tokens, X the T x A matrix of their
// attributes. Its entries are the numbers of attributes that two tokens share (with values, sums of
// products of these). With it, scores and squared norms of a sequence's gradient X'R follow from
// its T x K residuals R, without any weights.
//
// Sequences of at most kMaxCounted tokens keep their Gram matrix, as floats, from the first product
// on. Longer ones multiply by X' and X in turn: the matrix of 10^4 tokens would need 400 MB, and
// more time.
class TokenGram {
 public:
  static constexpr int64_t kMaxCounted = 96;

  // `data` must outlive this. Computes no matrix yet.
  TokenGram(const ChainData* data, const Kernels& kernels);

  // Scratch of one thread.
  class Scratch {
   public:
    Scratch(const ChainData* data, const Kernels& kernels);

   private:
    friend class TokenGram;
    struct Occurrence {
      int32_t token;
      int32_t before;  // Index of the last occurrence before of the same attribute; -1: none.
      double value;
    };
    std::vector<int32_t> last_;  // Index of each attribute's last occurrence in the current sequence; -1 in between.
    std::vector<Occurrence> occurrences_;
    std::unique_ptr<RowSums> row_sums_;  // Not null if there are long sequences.
  };

  // Computes D = X X' R; both are T x stride. Returns CANCELLED when stopped. Several threads may
  // call it at once, with different sequences.
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
