#ifndef LUTHIER_BENCH_LAB_CRF_STOCHASTIC_GRADIENT_H_
#define LUTHIER_BENCH_LAB_CRF_STOCHASTIC_GRADIENT_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/inference/row_sums.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/stochastic/sampler.h"

// Stochastic gradient methods without memory of the examples (Ahmed 2018, section 2.7.1), on the mean problem f = h /
// n, lambda = l2 / n. Iteration t = 1, 2, ... draws i, and with g the gradient of nll_i at w:
//
//   kConstant   w <- (1 - alpha lambda) w - alpha g, alpha = rate
//   kPegasos    the same with alpha = rate / (lambda t)              (Shalev-Shwartz et al. 2011; without projection)
//   kAveraged   as kConstant; the result is the mean of all iterates
//   kAdaGrad    G_j += g_j^2, alpha_j = rate / (1 + sqrt G_j), w_j <- (w_j - alpha_j g_j) / (1 + alpha_j lambda)
//               (Duchi et al. 2011, with the proximal step for the penalty)
//
//   symbol     meaning                                                              name in code
//   w          s v                                                                  shrink_; first half of rows_
//   c          sum of s over the iterations so far                                  shrink_sum_
//   u          sum of the iterates minus c v                                        second half of rows_ (kAveraged)
//   G          sums of squares                                                      second half of rows_ (kAdaGrad)
//
// An iteration touches only the rows of its sequence and the transitions. The first three rules
// shrink all weights by one product. With w_t = s_t v_t the sum of the iterates is c_t v_t + u_t,
// u_t = u_{t-1} + c_{t-1} (alpha / s_t) g. AdaGrad shrinks a row by (1 + alpha_j lambda)^-k when it
// is needed again k iterations later.
namespace luthier::crf::lab {

enum class GradientRule { kConstant, kPegasos, kAveraged, kAdaGrad };

struct StochasticGradientOptions {
  GradientRule rule = GradientRule::kConstant;
  double rate = 0.1;  // > 0. Pegasos proper: 1.
  // Samplings that need Lipschitz constants draw uniformly here; permutations and fixed orders are
  // used as they are.
  stochastic::Sampling sampling = stochastic::Sampling::kUniform;
  uint64_t seed = 0;
};

class StochasticGradient final : public ChainSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0; kPegasos: > 0.
  StochasticGradient(const ChainData* data, double l2, const StochasticGradientOptions& options,
                     const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  int64_t iterations() const override { return iterations_; }
  int64_t iterations_per_pass() const override { return data_->sequences(); }
  void CopyWeights(Eigen::VectorXd* w) const override;
  double GradientEstimate() const override;
  double passes() const override;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;
  // Takes over the weights. kAveraged goes on from the mean and begins a new one. kAdaGrad begins
  // new sums of squares.
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) override;

 private:
  absl::StatusOr<SolverState> Step(const base::StopToken& stop);
  // Returns the loss at w. If it is finite, fills in residuals and edges of chain_.
  absl::StatusOr<double> Evaluate(const Sequence& x, const base::StopToken& stop);
  void MoveConstant(const Sequence& x, double step);
  void MoveAdaGrad(const Sequence& x);
  // AdaGrad: shrinks the row [w | G], which had no gradient for `behind` iterations.
  void Shrink(double* row, int64_t behind) const;
  void Flush();
  bool averages() const { return options_.rule == GradientRule::kAveraged; }
  bool adaptive() const { return options_.rule == GradientRule::kAdaGrad; }

  const ChainData* data_;
  StochasticGradientOptions options_;
  const Kernels* kernels_;
  double lambda_;
  int stride_;
  int width_;  // Number of doubles of a row: stride_ or twice that.
  int64_t ahead_;
  stochastic::Sampler sampler_;
  ChainInference chain_;
  RowSums row_sums_;
  AlignedDoubles rows_;           // A + K rows of width_: attributes, transitions.
  std::vector<int64_t> current_;  // AdaGrad: iterations when an attribute's row was last brought up to date.
  double shrink_ = 1.0;
  double shrink_sum_ = 0.0;
  int64_t iterations_ = 0;
};

}  // namespace luthier::crf::lab

#endif  // LUTHIER_BENCH_LAB_CRF_STOCHASTIC_GRADIENT_H_
