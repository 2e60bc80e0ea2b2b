#ifndef LUTHIER_LIB_CRF_SOLVERS_AVERAGE_GRADIENT_H_
#define LUTHIER_LIB_CRF_SOLVERS_AVERAGE_GRADIENT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/solvers/average_solver.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/gradient_memory.h"
#include "lib/stochastic/sampler.h"

// Stochastic average gradient methods for chains (Ahmed 2018, chapter 2; Schmidt, Babanezhad, Ahmed, Defazio, Clifton,
// Sarkar 2015), on the mean problem f = h / n, lambda = l2 / n.
//
//   symbol     meaning                                                              name in code
//   g_i        last gradient seen of nll_i                                          memory_
//   d          sum_i g_i                                                            state_.rows, second half of each
//   w          beta v                                                               state_.beta; rows, first half
//   S          sum of alpha / (m beta) over the iterations since the last flush     state_.progress
//   S_a        S when row a was last brought up to date                             state_.row_progress
//   m          examples whose gradient is in d                                      stored()
//   L_i        estimated Lipschitz constant of the gradient of nll_i                sampler_
//
// One iteration of SAG draws i, replaces g_i by the gradient at w, and steps
// w <- (1 - alpha lambda) w - (alpha/m) d. The shrinking is one product (beta). A row of v is
// brought up to date when a sequence needs it, v_a -= (S - S_a) d_a. So an iteration touches only
// the rows of its sequence and the K x K transitions.
//
// Differences from the source:
//  - The loop ends when all sequences were seen AND the gradient is small. The source's
//    "while m < n and ..." would end at once.
//  - The line search needs no weights. It is skipped while it keeps succeeding (constant_search.h;
//    `skip_checks`).
//  - SAGA divides only g - g_i by n P_i, with the probability P_i of the draw as it was made.
//    kSagaLiteral is the printed form, which also divides d / m and has no share of uniform draws.
//    kSaga2Literal is the printed form of SAGA2, whose m counts the sequences that were drawn.
//  - The line search goes along the fresh gradient. With `search_remembered` it goes along the
//    remembered one, as in the source.
namespace luthier::crf {

// Not thread-safe.
class AverageGradient final : public AverageSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. Returns the errors of
  // GradientMemory::Create, and INVALID_ARGUMENT for search_remembered with memory sparse or
  // absolute.
  static absl::StatusOr<AverageGradient> Create(const ChainData* data, double l2, const AverageGradientOptions& options,
                                                const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;

  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;

 private:
  AverageGradient(const ChainData* data, double l2, const AverageGradientOptions& options, const Kernels& kernels,
                  GradientMemory memory);

  // Returns the loss at w. If it is finite, fills in residuals and edges of chain_.
  absl::StatusOr<double> Evaluate(const Sequence& x, const base::StopToken& stop);
  absl::StatusOr<double> SearchConstant(const Sequence& x, const stochastic::Sampler::Draw& draw, double loss,
                                        const base::StopToken& stop);
  double StepSize();
  // Runs one iteration. All long computations come before the first change, so a stopped iteration
  // has changed nothing. An iteration of SAGA2 has two such parts.
  absl::StatusOr<SolverState> Step(const base::StopToken& stop);
  absl::StatusOr<SolverState> Move(const base::StopToken& stop);
  absl::StatusOr<SolverState> RememberSecond(const base::StopToken& stop);
  void AddToRows(const Sequence& x, const GradientChange& change);
  void CatchUp(const Sequence& x);
  void MoveAlong(const Sequence& x, const GradientChange& change, double scale);
  void FollowTransitions(const double* change, double scale);

  ChainInference chain_;
  AlignedDoubles zeros_;
  AlignedDoubles remembered_tokens_, remembered_edges_;  // search_remembered: scratch.
  // The L of all sequences with options_.shared_constant; the running maximum with StepRule::kPort.
  double shared_constant_ = 1.0;
  bool moved_ = false;  // SAGA2: true if the first part of the current iteration is done.
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_AVERAGE_GRADIENT_H_
