#ifndef LUTHIER_LIB_CRF_SOLVERS_LBFGS_H_
#define LUTHIER_LIB_CRF_SOLVERS_LBFGS_H_

#include <cstdint>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/problem.h"
#include "lib/linear/lbfgs_solver.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {

// Returns what a minimizer's state means for a training.
SolverState ToSolverState(linear::SolveState state);

// L-BFGS on h. `data` must have passed CheckChainData and outlive it; l2 >= 0. The first iteration evaluates the start,
// w = 0 or another model's weights. Each later one takes a step. After a stop the iteration is done again from its
// beginning.
class ChainLbfgs final : public ChainSolver {
 public:
  ChainLbfgs(const ChainData* data, double l2, int threads, const Kernels& kernels = BestKernels());

  absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) override;
  int64_t iterations() const override { return iterations_; }
  int64_t iterations_per_pass() const override { return 1; }
  void CopyWeights(Eigen::VectorXd* w) const override;
  double GradientEstimate() const override;
  bool estimate_is_exact() const override { return true; }
  double passes() const override { return static_cast<double>(solver_.evaluations()); }
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) override;

 private:
  ChainLoss loss_;
  double l2_;
  linear::LbfgsSolver solver_;
  Eigen::VectorXd start_;  // The start; empty for 0. Not needed after the first iteration.
  int64_t iterations_ = 0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_LBFGS_H_
