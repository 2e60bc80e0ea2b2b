#ifndef LUTHIER_BENCH_LAB_CRF_BATCH_SOLVERS_H_
#define LUTHIER_BENCH_LAB_CRF_BATCH_SOLVERS_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "bench/lab/crf/growing_batch.h"
#include "bench/lab/crf/meta_descent.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/problem.h"

// Solvers that work on the whole weight vector in every iteration. `data` must have passed
// CheckChainData and outlive them; l2 >= 0. After a stop the iteration is done again from its
// beginning.
namespace luthier::crf::lab {

// "Hybrid" of Ahmed 2018, section 2.7.1: L-BFGS on a growing subset of the sequences
// (growing_batch.h). After WarmStart it uses all sequences, because steps for a few
// would lead away.
class ChainHybrid final : public ChainSolver {
 public:
  ChainHybrid(const ChainData* data, double l2, uint64_t seed, const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  int64_t iterations() const override { return iterations_; }
  int64_t iterations_per_pass() const override;
  void CopyWeights(Eigen::VectorXd* w) const override { *w = solver_.x(); }
  double GradientEstimate() const override;
  bool estimate_is_exact() const override { return true; }
  double passes() const override;
  int64_t batch() const { return solver_.batch(); }
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) override;

 private:
  ChainLoss loss_;
  std::vector<int32_t> order_;
  GrowingBatch solver_;
  int64_t iterations_ = 0;
};

// Stochastic meta-descent (meta_descent.h) on the mean problem, with kBatch random
// sequences an iteration, as by its authors for CRFs. A Hessian product counts as another gradient.
// WarmStart takes over the weights but not the steps, which are found anew.
class ChainMetaDescent final : public ChainSolver {
 public:
  static constexpr int64_t kBatch = 8;

  ChainMetaDescent(const ChainData* data, double l2, const MetaDescent::Options& options, uint64_t seed,
                   const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  int64_t iterations() const override { return iterations_; }
  int64_t iterations_per_pass() const override;
  void CopyWeights(Eigen::VectorXd* w) const override { *w = solver_.x(); }
  double GradientEstimate() const override;
  double passes() const override;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) override;

 private:
  ChainLoss loss_;
  double lambda_;
  uint64_t seed_;
  MetaDescent solver_;
  int64_t iterations_ = 0;
};

}  // namespace luthier::crf::lab

#endif  // LUTHIER_BENCH_LAB_CRF_BATCH_SOLVERS_H_
