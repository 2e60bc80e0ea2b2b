#ifndef LUTHIER_LIB_LINEAR_LOGISTIC_TRAINER_H_
#define LUTHIER_LIB_LINEAR_LOGISTIC_TRAINER_H_

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/status_macros.h"
#include "lib/linear/lbfgs_solver.h"
#include "lib/linear/logistic.h"
#include "lib/linear/logistic_preconditioner.h"
#include "lib/linear/newton_solver.h"

namespace luthier::linear {

enum class Solver { kLbfgs, kNewtonCg };

struct TrainOptions {
  Solver solver = Solver::kLbfgs;
  // Training has converged when the largest entry of the gradient is at most this times the largest
  // one at w = 0, which does not depend on the start. >= 0; with 0 it goes as far as rounding
  // allows.
  double tolerance = 1e-8;
  int64_t max_iterations = 1000;  // >= 0
};

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

// Trains one logistic model, one iteration at a time. Between iterations it can be read, stopped,
// saved and resumed. Reading it has no effect: with and without reports the weights are the same
// bit for bit. `problem` must outlive this. Not thread-safe.
class LogisticTrainer {
 public:
  LogisticTrainer(const LogisticProblem* problem, const TrainOptions& options);

  // Starts at w (dim()) instead of 0, e.g. another penalty's optimum. Before the first Advance only.
  void WarmStart(Eigen::VectorXd w);

  // Runs one iteration of the solver. The first call evaluates the start and is iteration 0. Polls
  // `stop` at the pace of lib/base/pace.h, also within an iteration, and returns CANCELLED when
  // stopped. The iteration is then discarded, so stopping never changes the iterates.
  absl::StatusOr<TrainOutcome> Advance(const base::StopToken& stop);

  TrainOutcome outcome() const { return outcome_; }
  bool started() const { return started_; }
  int64_t iteration() const { return iteration_; }
  const Eigen::VectorXd& Weights() const;
  double objective() const;      // h(w)
  double gradient_norm() const;  // |grad h(w)|, 2-norm.
  // Returns the largest gradient entry as a multiple of the one at w = 0; 1 before the start.
  double relative_gradient() const;
  double relative_gap() const { return INFINITY; }  // No bound is computed.
  // Return passes over the training rows: one for each evaluation of loss and gradient, and one for
  // each Hessian product.
  int64_t gradient_passes() const;
  int64_t hessian_passes() const { return newton_.hessian_products(); }
  // Returns all passes of finished iterations, those for the probabilities and diagonals of
  // Newton's method included.
  double passes() const;

  // Saves the whole state. `identity` names the training (data, split, hyperparameters, options).
  void Save(base::CheckpointWriter* writer, absl::string_view identity) const;
  // Resumes: the next Advance continues bit for bit. Returns FAILED_PRECONDITION for another
  // identity, and DATA_LOSS if the bytes do not fit. The trainer is then as new.
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity);

 private:
  void SetTolerance();
  uint64_t SolverNumber() const { return options_.solver == Solver::kLbfgs ? 0 : 1; }

  const LogisticProblem* const problem_;
  const TrainOptions options_;
  TrainOutcome outcome_ = TrainOutcome::kRunning;
  Eigen::VectorXd start_;
  bool started_ = false;
  int64_t iteration_ = 0;
  double zero_gradient_ = 0.0;  // Largest entry of grad h(0).
  int64_t extra_passes_ = 0;
  LbfgsSolver lbfgs_;
  NewtonSolver newton_;
};

// LogisticProblem as a SecondOrderFunction. `problem` must outlive it.
class LogisticFunction final : public SecondOrderFunction {
 public:
  explicit LogisticFunction(const LogisticProblem* problem) : problem_(problem) {}
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override {
    return problem_->Value(x, gradient, stop);
  }
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override {
    LUTHIER_ASSIGN_OR_RETURN(curvature_, problem_->data().CurvatureAt(x, stop));
    return absl::OkStatus();
  }
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override {
    return problem_->HessianVector(curvature_, v, stop);
  }
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override {
    return problem_->HessianDiagonal(curvature_, stop);
  }
  double point_passes() const override { return 1.0; }
  double factor_passes() const override {
    const double passes = LogisticPreconditioner::Passes(problem_->data());
    return std::isfinite(passes) ? passes : 0.0;
  }
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override {
    LUTHIER_ASSIGN_OR_RETURN(preconditioner_, LogisticPreconditioner::Make(problem_->data(), curvature_,
                                                                           problem_->PenaltyOfWeights(), stop));
    return preconditioner_.has_value();
  }
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override { return preconditioner_->Solve(r); }

 private:
  std::optional<LogisticPreconditioner> preconditioner_;
  const LogisticProblem* const problem_;
  LogisticData::Curvature curvature_;
};

// Advances until training ends. Calls `on_iteration` after the start and after each iteration; if
// that returns false, training ends there with outcome kRunning. Returns CANCELLED when stopped.
absl::StatusOr<TrainOutcome> Train(LogisticTrainer& trainer,
                                   absl::FunctionRef<bool(const LogisticTrainer&)> on_iteration,
                                   const base::StopToken& stop);

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LOGISTIC_TRAINER_H_
