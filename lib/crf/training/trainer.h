#ifndef LUTHIER_LIB_CRF_TRAINING_TRAINER_H_
#define LUTHIER_LIB_CRF_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/solvers/rescaling.h"
#include "lib/crf/training/methods.h"

namespace luthier::crf {

enum class ChainOutcome {
  kRunning,
  kConverged,
  kPrecision,  // Rounding prevents a smaller gradient.
  kPassLimit,
  kDiverged,  // A loss is not finite; the weights are the last finite ones.
};

// Trains one chain model, about a pass over the data at a time. In between it can be read, saved
// and resumed; reading it has no effect. `data` must have passed CheckChainData and outlive this.
// Not thread-safe.
class ChainTrainer {
 public:
  // l2 >= 0. Returns the errors of MakeChainSolver. Returns RESOURCE_EXHAUSTED, before memory is
  // allocated, if the weight vectors alone need too much (memory_plan.h).
  static absl::StatusOr<ChainTrainer> Create(const ChainData* data, double l2, const ChainTrainerOptions& options,
                                             const Kernels& kernels = BestKernels());

  // Runs as many iterations as cost about a pass, or the rest of them after a stop. Polls `stop`
  // before each sequence, also within passes over all data, and within long ones. Returns CANCELLED
  // when stopped.
  absl::StatusOr<ChainOutcome> Advance(const base::StopToken& stop);

  // Sets a function that is called when the solver has its first gradient: after its first
  // iteration, or with several threads its first pass. It does not affect the training.
  void OnFirstGradient(std::function<void()> call) { first_gradient_ = std::move(call); }

  ChainOutcome outcome() const { return outcome_; }
  Eigen::VectorXd Weights() const { return solver_->Weights(); }
  void CopyWeights(Eigen::VectorXd* w) const { solver_->CopyWeights(w); }
  // Returns effective passes: losses of one sequence, with gradients or alone, divided by the
  // number of sequences.
  double passes() const { return extra_passes_ + solver_->passes(); }
  // Returns the number that `tolerance` is compared with, after Advance: the largest entry of the true gradient (with
  // l1: of the smallest subgradient) at the weights, as a multiple of the one at w = 0. Returns 0 if both are 0,
  // infinity if only the latter is. Costs a pass, which passes() does not count, unless the last Advance has computed
  // it. Returns CANCELLED when stopped.
  absl::StatusOr<double> RelativeGradient(const base::StopToken& stop);

  // Saves the whole state. `identity` names the training to which it belongs.
  void Save(base::CheckpointWriter* writer, absl::string_view identity) const;
  // Loads the state of a trainer that was made with the same arguments. Returns FAILED_PRECONDITION
  // for another identity, and DATA_LOSS if the bytes do not fit. This must then not be used.
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity);
  // Saves data from which other trainers can start (ChainSolver::SaveModel). `identity` must be the
  // same for both.
  void SaveModel(base::CheckpointWriter* writer, absl::string_view identity) const;
  // Starts from data of SaveModel. To be called before the first Advance. The other trainer may
  // differ in the seed and the penalties, but either both have l1 penalties or neither has.
  // `rescaling` converts the other's sequences to those of this one. Passes count from 0. Returns
  // the errors of Load, and FAILED_PRECONDITION if the method forgets its start.
  absl::Status WarmStart(base::CheckpointReader* reader, absl::string_view identity,
                         const Rescaling& rescaling = Rescaling());

 private:
  ChainTrainer(const ChainData* data, double l2, const ChainTrainerOptions& options, const Kernels& kernels);
  std::string ModelIdentity(absl::string_view identity) const;
  absl::Status CheckIdentity(base::CheckpointReader* reader, absl::string_view identity) const;
  absl::StatusOr<ChainOutcome> Judge(const base::StopToken& stop);
  // Returns the largest entry of the gradient (with l1: of the smallest subgradient) at weights_.
  absl::StatusOr<double> LargestEntry(const base::StopToken& stop);

  const ChainData* data_;
  double l2_;
  ChainTrainerOptions options_;
  std::unique_ptr<ChainLoss> loss_;
  Eigen::VectorXd weights_, gradient_;  // Scratch that is used again: fresh pages cost more than the arithmetic.
  ChainOutcome outcome_ = ChainOutcome::kRunning;
  double zero_gradient_ = -1.0;  // Largest entry of the gradient at w = 0, once known.
  double extra_passes_ = 0.0;    // Passes for exact gradients: that at w = 0, and those that confirm convergence.
  double entry_ = -1.0;          // Largest entry of the gradient at the weights, once computed.
  int64_t target_ = 0;           // Iteration at which the current quantum ends.
  bool judged_ = true;           // False if iterations are done but Judge is not.
  bool precise_ = false;         // True if the iterations ended because of rounding.
  std::unique_ptr<ChainSolver> solver_;
  int64_t first_iteration_ = 0;  // Earlier iterations are those of another trainer.
  std::function<void()> first_gradient_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_TRAINING_TRAINER_H_
