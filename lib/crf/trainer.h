#ifndef LUTHIER_LIB_CRF_TRAINER_H_
#define LUTHIER_LIB_CRF_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/crf/average_gradient.h"
#include "lib/crf/problem.h"
#include "lib/learn/lbfgs_solver.h"

namespace luthier::crf {

struct ChainTrainerOptions {
  bool lbfgs = false;  // Else `average`.
  AverageGradientOptions average;
  // Converged when the largest entry of the gradient of h is at most this times the largest one at w = 0. >= 0.
  double tolerance = 1e-5;
  double max_passes = 100.0;  // > 0
  int threads = 1;            // L-BFGS only.
};

enum class ChainOutcome {
  kRunning,
  kConverged,
  kPrecision,  // L-BFGS: rounding prevents a smaller gradient.
  kPassLimit,
  kDiverged,  // A loss is not finite; the weights are the last finite ones.
  kStopped,   // The stop flag was seen; Advance may be called again.
};

// Trains one chain model, about a pass over the data at a time; in between it can be looked at, saved and resumed.
// Looking changes nothing. `data` must have passed CheckChainData and outlive this. Not thread-safe.
class ChainTrainer {
 public:
  // l2 >= 0. Errors of AverageGradient::Create.
  static absl::StatusOr<ChainTrainer> Create(const ChainData* data, double l2, const ChainTrainerOptions& options);

  // An iteration of L-BFGS, or n iterations of an average gradient method (SAGA2: n/2), or what is left of them after a
  // stop. `stop` (may be null) is looked at before each sequence, with L-BFGS before each pass.
  ChainOutcome Advance(const std::atomic<bool>* stop);

  ChainOutcome outcome() const { return outcome_; }
  Eigen::VectorXd Weights() const;
  // Effective passes: losses and gradients, also losses alone, of one sequence each, divided by their number.
  double passes() const;

  // The whole state; `identity` says what it belongs to.
  void Save(learn::CheckpointWriter* writer, absl::string_view identity) const;
  // For a trainer made alike. FAILED_PRECONDITION for another identity, DATA_LOSS when the bytes do not fit; this is
  // then of no use.
  absl::Status Load(learn::CheckpointReader* reader, absl::string_view identity);

 private:
  ChainTrainer(const ChainData* data, double l2, const ChainTrainerOptions& options);

  const ChainData* data_;
  double l2_;
  ChainTrainerOptions options_;
  std::unique_ptr<ChainLoss> loss_;
  ChainOutcome outcome_ = ChainOutcome::kRunning;
  bool started_ = false;
  double zero_gradient_ = 0.0;  // Largest entry of the gradient at w = 0.
  double extra_passes_ = 0.0;   // Exact gradients to confirm convergence.
  int64_t target_ = 0;          // Iterations at which the current quantum ends.
  learn::LbfgsSolver lbfgs_;
  std::unique_ptr<AverageGradient> average_;  // Null with L-BFGS.
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_TRAINER_H_
