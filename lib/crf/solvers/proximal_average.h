#ifndef LUTHIER_LIB_CRF_SOLVERS_PROXIMAL_AVERAGE_H_
#define LUTHIER_LIB_CRF_SOLVERS_PROXIMAL_AVERAGE_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/inference/row_sums.h"
#include "lib/crf/solvers/average_solver.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/constant_search.h"
#include "lib/crf/solvers/gradient_memory.h"
#include "lib/crf/solvers/l1_penalty.h"
#include "lib/stochastic/sampler.h"

// SAGA, or SAG, with an l1 penalty (Defazio, Bach, Lacoste-Julien 2014, section 2): minimises h(w) + l1 |w|_1, where
// each row of weights may have an l1 of its own, by
//
//   w <- soft((1 - alpha lambda) w - alpha direction, alpha mu),   mu = l1 / n,  lambda = l2 / n,
//   soft(z, t) = sign(z) max(0, |z| - t),
//   direction = (g - g_i) / (n P_i) + d / m  with the old d (SAGA), d / m with the new one (SAG).
//
// Names as in average_gradient.h. A weight whose row no sequence needs for a while moves by its d alone, for which all
// steps of that while are done at once when it is needed: as long as its sign stays,
//
//   w_t = B_t (w_s / B_s - d (S_t - S_s) - sign(w) mu (M_t - M_s)),
//   B_t = prod (1 - alpha_u lambda),  S_t = sum alpha_u / (m_u B_u),  M_t = sum alpha_u / B_u
//
// and it moves towards its fixed point without ever passing by, so whether it reaches zero is seen at the end, and
// when, by bisection in the history of B, S, M. At zero it stays if |d| <= mu m, else it leaves with the next step. So
// laziness is exact, and costs a few operations a weight. B, S and M are of all rows, whatever their l1.
namespace luthier::crf {

struct ProximalOptions {
  // kSag or kSaga; sampling, step (with its constant; not kPort), first_constant, skip_checks, memory and seed.
  AverageGradientOptions average;
  int64_t flush_every = 0;  // Iterations after which all rows are brought up to date. 0: as many as sequences.
};

class ProximalAverage final : public ChainSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. Errors of GradientMemory::Create.
  static absl::StatusOr<ProximalAverage> Create(const ChainData* data, const L1Penalty& l1, double l2,
                                                const ProximalOptions& options, const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  int64_t iterations() const override { return iterations_; }
  int64_t iterations_per_pass() const override { return data_->sequences(); }
  void CopyWeights(Eigen::VectorXd* w) const override;
  // Returns the norm of the smallest subgradient of d'w + l2/2 |w|^2 + the l1 penalty.
  double GradientEstimate() const override;
  double passes() const override;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;
  // As AverageSolver; the weights brought up to date, which is a matter of the penalties.
  void SaveModel(base::CheckpointWriter* writer) const override;
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) override;

 private:
  // The history since the last flush, after each step.
  struct Moment {
    double keep = 1.0, drift = 0.0, threshold = 0.0;  // B, S, M
    double step = 0.0, share = 0.0;                   // alpha and 1 / m of the step that led here.
  };

  ProximalAverage(const ChainData* data, const L1Penalty& l1, double l2, const ProximalOptions& options,
                  const Kernels& kernels, GradientMemory memory);
  // Nothing but rows that are brought up to date changes before all that may take long is done: a stop leaves no trace.
  absl::StatusOr<SolverState> Step(const base::StopToken& stop);
  // Loss at w; fills residuals and edges of chain_ when it is finite.
  absl::StatusOr<double> Evaluate(const Sequence& x, const base::StopToken& stop);
  double Mu(int64_t row) const { return l1_.Of(row) / static_cast<double>(data_->sequences()); }
  // One weight from moment `from` to the last one, with its d and mu.
  double Move(double w, double d, double mu, size_t from) const;
  void MoveRow(double* w, const double* d, double mu, size_t from) const;
  double OneStep(double w, double direction, double mu, double step) const;
  void Flush();
  void SaveWith(const AlignedDoubles& rows, const std::vector<int32_t>& current, const std::vector<Moment>& history,
                base::CheckpointWriter* writer) const;

  const ChainData* data_;
  ProximalOptions options_;
  const Kernels* kernels_;
  double lambda_;
  L1Penalty l1_;
  int stride_;
  int64_t ahead_;
  stochastic::Sampler sampler_;
  GradientMemory memory_;
  ChainInference chain_;
  ConstantSearch search_;
  RowSums row_sums_;
  AlignedDoubles rows_;  // A x [w | d]
  AlignedDoubles transitions_, d_transitions_;
  std::vector<int32_t> current_;  // Moment of each row.
  std::vector<Moment> history_;   // The first is that of the flush.
  std::vector<uint8_t> stored_;
  int64_t stored_count_ = 0;
  int64_t iterations_ = 0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_PROXIMAL_AVERAGE_H_
