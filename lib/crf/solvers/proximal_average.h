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
// Names as in average_gradient.h. While no sequence needs the row of a weight, the weight moves by
// its d alone. All these steps are done at once when the row is needed. As long as the sign of the
// weight stays,
//
//   w_t = B_t (w_s / B_s - d (S_t - S_s) - sign(w) mu (M_t - M_s)),
//   B_t = prod (1 - alpha_u lambda),  S_t = sum alpha_u / (m_u B_u),  M_t = sum alpha_u / B_u
//
// The weight moves towards its fixed point and never passes it. So the sign at the end tells if it
// reached zero, and bisection in the history of B, S, M tells when. At zero it stays if
// |d| <= mu m, else it leaves with the next step. So lazy steps are exact, and cost a few
// operations a weight. B, S and M are the same for all rows, whatever their l1.
namespace luthier::crf {

struct ProximalOptions {
  // ProximalAverage reads method (kSag or kSaga), sampling, step (not kPort) with its constant,
  // first_constant, skip_checks, memory, max_memory_bytes and seed.
  AverageGradientOptions average;
  // Number of iterations after which all rows are brought up to date; 0 means the number of
  // sequences.
  int64_t flush_every = 0;
};

class ProximalAverage final : public ChainSolver {
 public:
  // `data` must have passed CheckChainData and outlive this. l2 >= 0. Returns the errors of
  // GradientMemory::Create.
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
  // As AverageSolver, with weights brought up to date, because lazy steps depend on the penalties.
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
  // All long computations come before the first change, except that rows are brought up to date. So
  // a stopped step has no effect on the result.
  absl::StatusOr<SolverState> Step(const base::StopToken& stop);
  // Returns the loss at w. If it is finite, fills in residuals and edges of chain_.
  absl::StatusOr<double> Evaluate(const Sequence& x, const base::StopToken& stop);
  double Mu(int64_t row) const { return l1_.Of(row) / static_cast<double>(data_->sequences()); }
  // Returns the weight w, with its d and mu, moved from moment `from` to the last one.
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
  std::vector<int32_t> current_;  // Moment to which each row is up to date.
  std::vector<Moment> history_;   // The first is that of the flush.
  std::vector<uint8_t> stored_;
  int64_t stored_count_ = 0;
  int64_t iterations_ = 0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_PROXIMAL_AVERAGE_H_
