#ifndef LUTHIER_LIB_CRF_AVERAGE_GRADIENT_H_
#define LUTHIER_LIB_CRF_AVERAGE_GRADIENT_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/crf/chain_data.h"
#include "lib/crf/chain_solver.h"
#include "lib/crf/constant_search.h"
#include "lib/crf/gradient_memory.h"
#include "lib/crf/inference.h"
#include "lib/crf/lazy_average.h"
#include "lib/learn/checkpoint.h"
#include "lib/stochastic/sampler.h"
#include "lib/stochastic/step_rule.h"

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
//    also divides d / m and has no share of uniform draws, is kSagaLiteral.
namespace luthier::crf {

enum class AverageMethod { kSag, kSaga, kSagaLiteral, kSaga2 };
// "sag", "saga", "saga_literal", "saga2", in the order of the enum.
const std::vector<std::string>& AverageMethodNames();
absl::StatusOr<AverageMethod> ParseAverageMethod(absl::string_view name);

struct AverageGradientOptions {
  AverageMethod method = AverageMethod::kSag;
  stochastic::Sampling sampling = stochastic::Sampling::kMixed;
  stochastic::StepRule step = stochastic::StepRule::kHedge;
  double constant_step = 0.1;    // StepRule::kConstant. > 0.
  double first_constant = 1.0;   // L of the first example. > 0.
  bool shared_constant = false;  // One L for all examples, which shrinks by 2^(-1/n) an iteration (algorithm 1).
  bool skip_checks = true;
  MemoryMode memory = MemoryMode::kMixed;
  int64_t max_memory_bytes = int64_t{4} << 30;
  uint64_t seed = 0;
  // Of BlockAverage only.
  int threads = 1;    // 1 ... 256; changes no bit of the result.
  int64_t block = 0;  // Most sequences of a block; 0: 64 (sag) or 8, or a hundredth or an 800th of all if that is less.
};

// Not thread-safe.
class AverageGradient final : public ChainSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. Errors of GradientMemory::Create.
  static absl::StatusOr<AverageGradient> Create(const ChainData* data, double l2, const AverageGradientOptions& options,
                                                const Kernels& kernels = BestKernels());

  // An iteration of SAGA2 has two evaluations.
  SolverState Advance(int64_t iterations, const std::atomic<bool>* stop) override;
  int64_t iterations_per_pass() const override;

  Eigen::VectorXd Weights() const override { return state_.Weights(); }
  // Largest entry of d + l2 w, which goes to the gradient of h; infinite while an example is unseen.
  double GradientEstimate() const override;

  // Goes on with another penalty from here: gradients and constants are of the data alone and stay valid.
  void SetPenalty(double l2);

  int64_t iterations() const override { return iterations_; }
  int64_t evaluations() const { return evaluations_; }     // Losses with gradients, of one sequence each.
  int64_t forwards() const { return search_.forwards(); }  // Losses alone, in line searches.
  // (evaluations + forwards) / n: a loss counts as much as loss and gradient.
  double passes() const override;
  int64_t memory_bytes() const { return memory_.bytes(); }
  double max_constant() const { return sampler_.max_constant(); }
  double mean_constant() const { return sampler_.mean_constant(); }

  void Save(learn::CheckpointWriter* writer) const override;
  bool Load(learn::CheckpointReader* reader) override;

 private:
  AverageGradient(const ChainData* data, double l2, const AverageGradientOptions& options, const Kernels& kernels,
                  GradientMemory memory);

  // Loss at w; fills residuals and edges of chain_. False when it is not finite.
  bool Evaluate(const Sequence& x, double* loss);
  double SearchConstant(const Sequence& x, const stochastic::Sampler::Draw& draw, double loss);
  double StepSize() const;
  bool Step();
  void AddToRows(const Sequence& x, const GradientChange& change);
  void CatchUp(const Sequence& x);
  void MoveAlong(const Sequence& x, const GradientChange& change, double scale);
  void FollowTransitions(const double* change, double scale);
  void MarkStored(int64_t i);

  const ChainData* data_;
  AverageGradientOptions options_;
  const Kernels* kernels_;
  double lambda_;
  int stride_;
  int64_t ahead_;
  stochastic::Sampler sampler_;
  GradientMemory memory_;
  ChainInference chain_;
  ConstantSearch search_;
  LazyAverage state_;
  AlignedDoubles zeros_;
  double shared_constant_ = 1.0;
  std::vector<uint8_t> stored_;
  int64_t stored_count_ = 0;
  int64_t iterations_ = 0;
  int64_t evaluations_ = 0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_AVERAGE_GRADIENT_H_
