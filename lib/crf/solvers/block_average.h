#ifndef LUTHIER_LIB_CRF_SOLVERS_BLOCK_AVERAGE_H_
#define LUTHIER_LIB_CRF_SOLVERS_BLOCK_AVERAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/base/team.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/solvers/average_solver.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/constant_search.h"
#include "lib/crf/solvers/gradient_memory.h"
#include "lib/stochastic/sampler.h"

// The methods of average_gradient.h on several threads. The iterations are the same, but the
// gradients of a block of iterations are computed at once. Names as in average_gradient.h. A block
// goes through four stages:
//
//   draw     the sequences of the block, one after the other               one thread
//   look     loss, gradient, line search and change of the remembered      divided by sequences
//            gradient, for each sequence; writes its own results alone
//   count    constants, steps, beta and S of each iteration in turn        one thread
//   move     changes of v and d by every iteration in turn                 divided by rows
//
// Each row is moved by one thread in the order of the iterations, and a look does not depend on the
// thread. So the number of threads does not change the result. The size of the block does.
//
// Rows store c = v + S d instead of v. Then v = c - S d for any S, and a change of d by r at S
// changes c by S r. So no row has to be brought up to date (S_a = 0 for all).
//
// Looking ahead: the k-th sequence of a block is evaluated at the weights that k steps along d lead
// to, with d as it was before the block. This costs nothing: the formula for v takes a later S. The
// change of d within the block is neglected, an error of second order in the block's share of the
// data. With the weights before the block for all sequences, blocks of 1 % of OCR letters did not
// converge; with those ahead they need no more passes than single sequences. The steps of SAGA and
// SAGA2 along g - g_i cannot be foreseen, so their blocks are an eighth as large.
//
// While few sequences are in d, each contributes much to it. So a block is at most an eighth of
// those in d.
//
// A sequence drawn twice in a block would have nearly the same gradient again. It is evaluated once
// (and counts once in passes()), and the second iteration goes along d alone.
namespace luthier::crf {

class BlockAverage final : public AverageSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. Returns INVALID_ARGUMENT for
  // the memory modes sparse and absolute, and for shared_constant, search_remembered, kSaga2Literal
  // and StepRule::kPort. Returns RESOURCE_EXHAUSTED if the table and the threads' scratch together
  // need more than max_memory_bytes.
  static absl::StatusOr<std::unique_ptr<BlockAverage>> Create(const ChainData* data, double l2,
                                                              const AverageGradientOptions& options,
                                                              const Kernels& kernels = BestKernels());

  // Runs `iterations` iterations and the rest of the last block. Returns CANCELLED when stopped.
  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;

 private:
  // Number of parts of the rows in the last stage, a power of two. Row a is in part a modulo this.
  static constexpr int kParts = 8;

  // One iteration of the block.
  struct Drawn {
    stochastic::Sampler::Draw draw;
    double start = 0.0;  // Constant from which the search starts; without a search, the constant.
    bool searches = false;
    int64_t second = -1;  // SAGA2: the sequence whose gradient is remembered.
  };
  // A sequence of the block.
  struct Look {
    Sequence x;
    double start = 0.0;
    bool searches = false;
    double now = 0.0, beta = 1.0;  // S and beta of the weights at which it is evaluated.
    // Results:
    double loss = 0.0;
    ConstantSearch::Found found;
    // Start of its results:
    int64_t tokens_at, edges_at;     // in changes_
    int64_t remembered_at;           // in remembered_
    int64_t entries_at;              // in the lists of entries
    int64_t part_start[kParts + 1];  // of each part in its entries
  };
  // Arguments of Kernels::move_rows for the rows of a sequence.
  struct Move {
    int look;
    double along, keep;
  };
  // An iteration's update of the transitions, by the change of one sequence: v -= along * change, v
  // -= scale d. The change is added to d before or after that.
  struct Turn {
    int look;  // -1: no change.
    double along, scale;
    bool before, after;
  };
  struct Worker {
    Worker(const ChainData* data, const Kernels& kernels);
    ChainInference chain;
    ConstantSearch::Scratch search;
    AlignedDoubles edge_marginals;
  };

  BlockAverage(const ChainData* data, double l2, const AverageGradientOptions& options, const Kernels& kernels,
               GradientMemory memory);
  void DrawBlock();
  int AddLook(int64_t i);
  void ClearLooks();
  void PlaceLooks();
  absl::Status Evaluate(const base::StopToken& stop);
  absl::Status LookAt(Look* look, Worker* worker, const base::StopToken& stop);
  void ListEntries(Look* look);
  void Count();
  void CountIteration(const Drawn& drawn);
  void MoveAll();
  void MovePart(int part);
  void MoveTransitions();

  int64_t square_;
  int64_t block_;
  std::vector<Drawn> drawn_;  // The block, until it is done.

  // Scratch of the block.
  base::Team team_;
  std::vector<Worker> workers_;
  std::vector<Look> looks_;
  std::vector<int32_t> look_of_;   // Look of each sequence; -1: it has none.
  std::vector<uint8_t> in_table_;  // True for each look that the block has remembered.
  AlignedDoubles transitions_, zeros_, changes_;
  std::vector<float> remembered_;
  std::vector<int32_t> entry_attribute_, entry_token_;
  std::vector<double> entry_value_;
  std::vector<Move> moves_;
  std::vector<Turn> turns_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_BLOCK_AVERAGE_H_
