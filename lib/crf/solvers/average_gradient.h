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
// One iteration of SAG draws i, replaces g_i by the gradient at w, and steps w <- (1 - alpha lambda) w - (alpha/m) d.
// The shrinking is one product (beta), and a row of v is brought up to date when a sequence needs it, v_a -= (S - S_a)
// d_a: an iteration touches the rows of its sequence and the K x K transitions only.
//
// What differs from the source:
//  - The loop ends when all were seen AND the gradient is small ("while m < n and ..." there would end at once).
//  - The line search needs no weights and is left out where it keeps succeeding (constant_search.h; `skip_checks`).
//  - SAGA divides only g - g_i by n P_i, with the probability P_i of the draw as it was made; the printed form, which
//    also divides d / m and has no share of uniform draws, is kSagaLiteral; kSaga2Literal the same of SAGA2, where m
//    then counts the sequences that were drawn. Its line search along the remembered gradient is `search_remembered`.
namespace luthier::crf {

// Not thread-safe.
class AverageGradient final : public AverageSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. Errors of GradientMemory::Create;
  // INVALID_ARGUMENT for search_remembered with memory sparse or absolute.
  static absl::StatusOr<AverageGradient> Create(const ChainData* data, double l2, const AverageGradientOptions& options,
                                                const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;

  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;

 private:
  AverageGradient(const ChainData* data, double l2, const AverageGradientOptions& options, const Kernels& kernels,
                  GradientMemory memory);

  // Loss at w; fills residuals and edges of chain_ when it is finite.
  absl::StatusOr<double> Evaluate(const Sequence& x, const base::StopToken& stop);
  absl::StatusOr<double> SearchConstant(const Sequence& x, const stochastic::Sampler::Draw& draw, double loss,
                                        const base::StopToken& stop);
  double StepSize();
  // One iteration. Nothing changes before all that may take long is done, so one that is given up leaves no trace; that
  // of SAGA2 has two such parts.
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
  // L of all with options_.shared_constant; with StepRule::kPort the running maximum.
  double shared_constant_ = 1.0;
  bool moved_ = false;  // SAGA2: the first part of the current iteration is done.
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_AVERAGE_GRADIENT_H_
