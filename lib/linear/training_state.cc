#include "lib/linear/training_state.h"

#include <string>

#include "lib/base/check.h"

namespace luthier::linear {

TrainOutcome OutcomeOf(SolveState state) {
  switch (state) {
    case SolveState::kRunning:
      return TrainOutcome::kRunning;
    case SolveState::kConverged:
      return TrainOutcome::kConverged;
    case SolveState::kPrecision:
      return TrainOutcome::kPrecision;
    case SolveState::kNonFinite:
      return TrainOutcome::kDiverged;
  }
  LUTHIER_CHECK(false);
}

void TrainerState::Save(base::CheckpointWriter* writer, absl::string_view identity, uint64_t solver) const {
  writer->Text(identity);
  writer->U64(solver);
  writer->U64(started ? 1 : 0);
  writer->U64(static_cast<uint64_t>(outcome));
  writer->U64(static_cast<uint64_t>(iteration));
  writer->F64(zero_gradient);
}

absl::Status TrainerState::Load(base::CheckpointReader* reader, absl::string_view identity, uint64_t solver) {
  const std::string found = reader->Text();
  if (!reader->ok()) return absl::DataLossError("checkpoint: cut off");
  if (found != identity) {
    return absl::FailedPreconditionError("checkpoint: made with other data, hyperparameters or options");
  }
  const uint64_t found_solver = reader->U64();
  TrainerState state;
  state.started = reader->U64() != 0;
  const uint64_t outcome_number = reader->U64();
  state.iteration = static_cast<int64_t>(reader->U64());
  state.zero_gradient = reader->F64();
  if (!reader->ok() || found_solver != solver || state.iteration < 0 ||
      outcome_number > static_cast<uint64_t>(TrainOutcome::kDiverged)) {
    return UnfitCheckpoint();
  }
  state.outcome = static_cast<TrainOutcome>(outcome_number);
  *this = state;
  return absl::OkStatus();
}

absl::Status UnfitCheckpoint() {
  return absl::DataLossError("checkpoint: its contents do not fit this problem");
}

}  // namespace luthier::linear
