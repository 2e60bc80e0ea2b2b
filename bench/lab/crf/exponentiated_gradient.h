#ifndef LUTHIER_BENCH_LAB_CRF_EXPONENTIATED_GRADIENT_H_
#define LUTHIER_BENCH_LAB_CRF_EXPONENTIATED_GRADIENT_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/inference/token_gram.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/stochastic/sampler.h"

// Online exponentiated gradient on the dual problem (Collins, Globerson, Koo, Carreras, Bartlett 2008; Ahmed 2018,
// section 2.7.1). In place of
//
//   h(w) = sum_i [log Z_i(w) - w'F(x_i, y_i)] + l2/2 |w|^2
//
// it maximises
//
//   D(alpha) = sum_i H(alpha_i) - l2/2 |w(alpha)|^2,
//   w(alpha) = (1/l2) sum_i [F(x_i, y_i) - E_{alpha_i} F],
//
// over distributions alpha_i on the labelings of sequence i, with entropy H. D(alpha) <= h(w) for
// all w and alpha, with equality at the optimum of both. So h(w) - D(alpha) is an upper bound of
// h(w) - min h, for the w of any solver.
//
//   symbol     meaning                                                              name in code
//   theta_i    log potentials of alpha_i: T K of tokens, K^2 of transitions         potentials_
//   mu_i       expected features under alpha_i: marginals and edges                 marginals_
//   eta_i      step of sequence i                                                   rate_
//   H_i        entropy of alpha_i, nats                                             entropy_
//
// An iteration draws i, and moves theta_i to (1 - eta_i) theta_i + eta_i (potentials of w for x_i). If D does not fall,
// eta_i grows by a factor of 1.05 (up to 1). Otherwise eta_i is halved and the move is tried again, as in Collins'
// code. The change of D needs no weights: with r the change of the marginals it is a change of entropy plus scores' r
// plus r'(X X')r / (2 l2), where the T x T Gram matrix of tokens (token_gram.h) takes the place of features.
//
// All alpha_i begin with independent tokens whose true labels have the potential `first_potential`.
// The source starts with uniform alpha_i, potential 0. Then w(alpha) is the sum of all gradients at
// zero, with entries in the ten thousands, and its scores are useless for many passes.
namespace luthier::crf::lab {

struct ExponentiatedGradientOptions {
  double first_potential = 6.0;  // >= 0
  double first_rate = 0.5;       // eta_i, in (0, 1].
  // As StochasticGradientOptions::sampling.
  stochastic::Sampling sampling = stochastic::Sampling::kUniform;
  int64_t max_memory_bytes = int64_t{4} << 30;
  uint64_t seed = 0;
};

class ExponentiatedGradient final : public ChainSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. Returns INVALID_ARGUMENT unless
  // l2 > 0, and RESOURCE_EXHAUSTED if potentials and marginals need more than max_memory_bytes.
  static absl::StatusOr<ExponentiatedGradient> Create(const ChainData* data, double l2,
                                                      const ExponentiatedGradientOptions& options,
                                                      const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  int64_t iterations() const override { return iterations_; }
  int64_t iterations_per_pass() const override { return data_->sequences(); }
  // Copies w(alpha).
  void CopyWeights(Eigen::VectorXd* w) const override;
  double GradientEstimate() const override;
  double passes() const override;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;
  // Saves the distributions alpha_i, which concern the labels alone; w(alpha) follows from them.
  void SaveModel(base::CheckpointWriter* writer) const override;
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) override;

  // Returns D(alpha), which never falls. h(w) minus this is an upper bound of h(w) - min h. Call it
  // after the first Advance, even one of 0 iterations, which makes the alpha_i.
  double DualValue() const;

 private:
  ExponentiatedGradient(const ChainData* data, double l2, const ExponentiatedGradientOptions& options,
                        const Kernels& kernels);
  // Makes the alpha_i and w(alpha), one sequence after the other. Returns CANCELLED when stopped;
  // the next call goes on from there.
  absl::Status Start(const base::StopToken& stop);
  absl::StatusOr<SolverState> Step(const base::StopToken& stop);
  absl::StatusOr<SolverState> Move(const Sequence& x, const base::StopToken& stop);
  // Moves w along a change of mu_i.
  void AddToWeights(const Sequence& x, double scale, const double* tokens, const double* edges);
  int64_t Offset(int64_t i) const { return start_[static_cast<size_t>(i)]; }

  const ChainData* data_;
  double l2_;
  ExponentiatedGradientOptions options_;
  const Kernels* kernels_;
  int stride_;
  int64_t square_;
  int64_t ahead_;
  TokenGram token_gram_;
  TokenGram::Scratch gram_scratch_;
  stochastic::Sampler sampler_;
  ChainInference chain_;
  std::vector<int64_t> start_;  // Start of each sequence's part of the next two: T x stride, then K x stride.
  AlignedDoubles potentials_, marginals_;
  std::vector<double> entropy_, rate_;
  AlignedDoubles w_;                        // Weights in the layout of Shape.
  AlignedDoubles scores_, change_, image_;  // Scratch: scores of w; change of mu_i; X X' times it.
  int64_t started_ = 0;                     // Number of sequences whose alpha_i are made.
  int64_t iterations_ = 0;
  int64_t evaluations_ = 0;
};

}  // namespace luthier::crf::lab

#endif  // LUTHIER_BENCH_LAB_CRF_EXPONENTIATED_GRADIENT_H_
