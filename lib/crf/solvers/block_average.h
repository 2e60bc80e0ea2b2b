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

// The methods of average_gradient.h on several threads: the same iterations, but gradients are taken for a block of
// them at once. Names as there. A block goes through four stages:
//
//   draw     as many sequences as the block has, one after the other                         one thread
//   look     of each drawn sequence: loss, gradient, line search, change of what is          shared out by sequences
//            remembered. Nothing is written but its own results.
//   count    constants, steps, beta and S of each iteration in turn                          one thread
//   move     every iteration's changes of v and d, in turn                                   shared out by rows
//
// Each row is moved by one thread in the order of the iterations, and what the looks find does not depend on who looks:
// so the number of threads changes no bit. The size of the block does.
//
// Rows keep c = v + S d instead of v: v = c - S d for any S, and a change of d by r at S changes c by S r. So no row
// has to be brought up to date, nor to know when it last was (S_a = 0 for all).
//
// Looking ahead: the k-th sequence of a block is looked at with the weights that k steps along d as it was before the
// block lead to. Rows that lag behind are brought up to date by the same formula, so this costs nothing: S is set
// ahead. What is missed is only how the block itself changes d, an error of second order in the block's share of the
// data. With the weights before the block for all, blocks of 1 % of OCR letters did not converge; with those ahead they
// need no more passes than single sequences. SAGA's and SAGA2's own steps along g - g_i are not foreseen: their blocks
// are an eighth.
//
// While few sequences are in d, a single one is much of it: a block is at most an eighth of those in d.
//
// A sequence drawn twice in a block would have nearly the same gradient again: it is looked at once (and counts once in
// passes()), and the second iteration goes along d alone.
namespace luthier::crf {

class BlockAverage final : public AverageSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. INVALID_ARGUMENT for the memory modes sparse and
  // absolute, and for shared_constant; RESOURCE_EXHAUSTED when the table and the threads' scratch together need more
  // than max_memory_bytes.
  static absl::StatusOr<std::unique_ptr<BlockAverage>> Create(const ChainData* data, double l2,
                                                              const AverageGradientOptions& options,
                                                              const Kernels& kernels = BestKernels());

  // `iterations` iterations and what is left of the block then. CANCELLED when stopped.
  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;

 private:
  static constexpr int kParts =
      8;  // Parts of the rows, for the last stage: row a is in part a modulo this power of two.

  // One iteration of the block.
  struct Drawn {
    stochastic::Sampler::Draw draw;
    double start = 0.0;  // Constant that its search starts from; without a search, its constant.
    bool searches = false;
    int64_t second = -1;  // SAGA2: the sequence whose gradient is remembered.
  };
  // A sequence of the block.
  struct Look {
    Sequence x;
    double start = 0.0;
    bool searches = false;
    double now = 0.0, beta = 1.0;  // S and beta of the weights that it is looked at with.
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
  // An iteration's update of the transitions: v -= along * its change, v -= scale d; d += the change, before or
  // after.
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
