#include "lib/linear/logistic_trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::linear {

using Eigen::VectorXd;

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

LogisticTrainer::LogisticTrainer(const LogisticProblem* problem, const TrainOptions& options)
    : problem_(problem), options_(options), start_(VectorXd::Zero(problem->dim())) {
  LUTHIER_CHECK(options.tolerance >= 0.0 && options.max_iterations >= 0);
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

void LogisticTrainer::WarmStart(VectorXd w) {
  LUTHIER_CHECK(!started_ && w.size() == problem_->dim());
  start_ = std::move(w);
}

const VectorXd& LogisticTrainer::Weights() const {
  if (!started_) return start_;
  return options_.solver == Solver::kLbfgs ? lbfgs_.x() : newton_.x();
}

double LogisticTrainer::objective() const {
  return options_.solver == Solver::kLbfgs ? lbfgs_.value() : newton_.value();
}

double LogisticTrainer::gradient_norm() const {
  return options_.solver == Solver::kLbfgs ? lbfgs_.gradient().norm() : newton_.gradient().norm();
}

double LogisticTrainer::relative_gradient() const {
  if (!started_ || !(zero_gradient_ > 0.0)) return started_ ? 0.0 : 1.0;
  return LargestEntry(options_.solver == Solver::kLbfgs ? lbfgs_.gradient() : newton_.gradient()) / zero_gradient_;
}

int64_t LogisticTrainer::gradient_passes() const {
  return extra_passes_ + (options_.solver == Solver::kLbfgs ? lbfgs_.evaluations() : newton_.evaluations());
}

double LogisticTrainer::passes() const {
  return static_cast<double>(extra_passes_) +
         (options_.solver == Solver::kLbfgs ? static_cast<double>(lbfgs_.evaluations()) : newton_.passes());
}

void LogisticTrainer::SetTolerance() {
  lbfgs_.set_tolerance(options_.tolerance * zero_gradient_);
  newton_.set_tolerance(options_.tolerance * zero_gradient_);
}

absl::StatusOr<TrainOutcome> LogisticTrainer::Advance(const base::StopToken& stop) {
  if (outcome_ != TrainOutcome::kRunning) return outcome_;
  const auto f = [&](const VectorXd& w, VectorXd* gradient) { return problem_->Value(w, gradient, stop); };
  LogisticFunction function(problem_);
  SolveState state = SolveState::kRunning;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (!started_) {
    const bool lbfgs = options_.solver == Solver::kLbfgs;
    const auto set_tolerance = [&](const VectorXd& gradient) {
      zero_gradient_ = gradient.size() == 0 ? 0.0 : gradient.cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
      SetTolerance();
    };
    // Training mostly starts at 0, whose gradient the solver needs anyway.
    const bool elsewhere = !start_.isZero(0.0);
    if (elsewhere) {
      VectorXd gradient;
      LUTHIER_RETURN_IF_ERROR(f(VectorXd::Zero(problem_->dim()), &gradient).status());
      set_tolerance(gradient);
    }
    // A stop changes only state that the next call makes anew.
    LUTHIER_ASSIGN_OR_RETURN(state, lbfgs ? lbfgs_.Start(f, start_) : newton_.Start(function, start_, stop));
    if (!elsewhere) set_tolerance(lbfgs ? lbfgs_.gradient() : newton_.gradient());
    if (elsewhere) ++extra_passes_;
    started_ = true;
  } else if (iteration_ >= options_.max_iterations) {
    outcome_ = TrainOutcome::kIterationLimit;
    return outcome_;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(state,
                             options_.solver == Solver::kLbfgs ? lbfgs_.Step(f, stop) : newton_.Step(function, stop));
    ++iteration_;
  }
  outcome_ = OutcomeOf(state);
  if (outcome_ == TrainOutcome::kRunning && iteration_ >= options_.max_iterations) {
    outcome_ = TrainOutcome::kIterationLimit;
  }
  return outcome_;
}

void LogisticTrainer::Save(base::CheckpointWriter* writer, absl::string_view identity) const {
  TrainerState{started_, outcome_, iteration_, zero_gradient_}.Save(writer, identity, SolverNumber());
  writer->U64(static_cast<uint64_t>(extra_passes_));
  if (!started_) {
    writer->Vector(start_);
  } else if (options_.solver == Solver::kLbfgs) {
    lbfgs_.Save(writer);
  } else {
    newton_.Save(writer);
  }
}

absl::Status LogisticTrainer::Load(base::CheckpointReader* reader, absl::string_view identity) {
  LUTHIER_CHECK(!started_);
  TrainerState state;
  LUTHIER_RETURN_IF_ERROR(state.Load(reader, identity, SolverNumber()));
  const auto extra_passes = static_cast<int64_t>(reader->U64());
  bool fits = reader->ok();
  if (fits && !state.started) {
    VectorXd start = reader->Vector();
    fits = reader->ok() && start.size() == problem_->dim();
    if (fits) start_ = std::move(start);
  } else if (fits) {
    fits = options_.solver == Solver::kLbfgs ? lbfgs_.Load(reader, problem_->dim())
                                             : newton_.Load(reader, problem_->dim());
  }
  if (!fits) return UnfitCheckpoint();
  started_ = state.started;
  outcome_ = state.outcome;
  iteration_ = state.iteration;
  zero_gradient_ = state.zero_gradient;
  extra_passes_ = extra_passes;
  SetTolerance();
  return absl::OkStatus();
}

absl::StatusOr<TrainOutcome> Train(LogisticTrainer& trainer,
                                   absl::FunctionRef<bool(const LogisticTrainer&)> on_iteration,
                                   const base::StopToken& stop) {
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const TrainOutcome outcome, trainer.Advance(stop));
    const bool go_on = on_iteration(trainer);
    if (outcome != TrainOutcome::kRunning || !go_on) return outcome;
  }
}

}  // namespace luthier::linear
