#ifndef LUTHIER_LIB_CRF_SOLVERS_CONSTANT_SEARCH_H_
#define LUTHIER_LIB_CRF_SOLVERS_CONSTANT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/inference/token_gram.h"

namespace luthier::crf {

// The line search for a sequence's Lipschitz constant (Ahmed 2018, algorithm 2). It doubles L until
// nll_i(w - g/L) <= nll_i(w) - |g|^2 / (2L). No weights are needed: with residuals r (T x K) the
// gradient of a sequence is X'r, so its scores change by -(X X') r / L and
// |g|^2 = r'(X X')r + |G|^2.
//
// If the first trial succeeds, the search is skipped at the next 1, 3, 7, 15, at last 31 visits of
// the example. Algorithm 8 of the source skips support vectors by this rule. Not thread-safe.
class ConstantSearch {
 public:
  // `data` must outlive it.
  ConstantSearch(const ChainData* data, const Kernels& kernels);

  // Returns true if the search is skipped at this visit of example i, and counts the visit. The
  // constant must then not change. Lowering it without a search, even by 0.99 a visit, makes steps
  // too long for some data (short sentences of mostly one label).
  bool Skip(int64_t i);
  // Makes the next visit of each example search, because its constant is a guess.
  void DemandAll();

  // The gradient along which the search goes. It is that of the chain, after Backward and
  // SubtractLabeling, except with `search_remembered` (average_solver.h).
  struct Direction {
    const double* residuals;  // T x stride
    const double* edges;      // K x stride
  };
  // Returns L, searched from `start` on. `loss` is nll_i(w); the scores and transitions of `chain`
  // are those at w. Returns CANCELLED when stopped, here and below.
  absl::StatusOr<double> Search(const Sequence& x, double loss, double start, const Direction& along,
                                ChainInference* chain, const base::StopToken& stop);
  int64_t forwards() const { return forwards_; }  // Losses evaluated.

  // Look and Record do the same in two steps. Several threads may Look at different sequences at
  // once, each with its own scratch.
  class Scratch {
   public:
    Scratch(const ChainData* data, const Kernels& kernels);

   private:
    friend class ConstantSearch;
    ChainInference trial_;
    AlignedDoubles change_;
    TokenGram::Scratch token_gram_;
  };
  struct Found {
    double constant = 0.0;
    int forwards = 0;  // Losses evaluated; 0: the gradient is too small to search.
  };
  absl::StatusOr<Found> Look(const Sequence& x, double loss, double start, const Direction& along,
                             ChainInference* chain, Scratch* scratch, const base::StopToken& stop);
  void Record(int64_t i, const Found& found);

  void Save(base::CheckpointWriter* writer) const;
  bool Load(base::CheckpointReader* reader);

 private:
  const Kernels* kernels_;
  TokenGram token_gram_;
  Scratch scratch_;
  std::vector<uint8_t> streak_;  // Searches in a row whose first trial succeeded.
  std::vector<int32_t> skip_;    // Searches still to be skipped.
  int64_t forwards_ = 0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_CONSTANT_SEARCH_H_
