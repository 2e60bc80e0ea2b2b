#ifndef LUTHIER_LIB_LINEAR_TRAINING_STATE_H_
#define LUTHIER_LIB_LINEAR_TRAINING_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/linear/minimizer.h"

namespace luthier::linear {

enum class TrainOutcome {
  kRunning,
  kConverged,
  kPrecision,  // Rounding prevents a smaller gradient.
  kIterationLimit,
  kDiverged,  // Loss or gradient is not finite. w is the last finite iterate.
};
// Returns the outcome of a training whose solver is in `state`.
TrainOutcome OutcomeOf(SolveState state);

// State that trainers of linear models save first.
struct TrainerState {
  bool started = false;
  TrainOutcome outcome = TrainOutcome::kRunning;
  int64_t iteration = 0;
  double zero_gradient = 0.0;  // Largest entry of grad h(0).

  // `identity` names the training to which the state belongs. `solver` is the number of its solver.
  void Save(base::CheckpointWriter* writer, absl::string_view identity, uint64_t solver) const;
  // Returns FAILED_PRECONDITION for another identity, and DATA_LOSS if the bytes do not fit or
  // belong to another solver. This is then unchanged.
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity, uint64_t solver);
};

// Returns the error of a checkpoint whose bytes do not fit the problem.
absl::Status UnfitCheckpoint();

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_TRAINING_STATE_H_
