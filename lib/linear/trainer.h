#ifndef LUTHIER_LIB_LINEAR_TRAINER_H_
#define LUTHIER_LIB_LINEAR_TRAINER_H_

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/linear/dual_coordinate_descent.h"
#include "lib/linear/lbfgs_solver.h"
#include "lib/linear/logistic_trainer.h"
#include "lib/linear/newton_solver.h"
#include "lib/linear/problem.h"
#include "lib/linear/svrg.h"

namespace luthier::linear {

enum class LinearSolver { kLbfgs, kNewtonCg, kNewtonCholesky, kDual, kSvrg };

// "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg", in the order of the enum.
const std::vector<std::string>& LinearSolverNames();
absl::StatusOr<LinearSolver> ParseLinearSolver(absl::string_view name);

// True if `solver` is for problems with one penalty alone. Other problems become such by a change of variables:
// columns divided by s_j = sqrt(l2_j / l2) have the weights s_j w_j, and all of these the penalty l2.
bool NeedsOnePenalty(LinearSolver solver);

struct SolverChoice {
  LinearSolver solver = LinearSolver::kLbfgs;
  std::string reason;  // One sentence with the numbers it rests on.
};

// The solver that is estimated to need the fewest passes for `problem` from w = 0: by its rows, columns, entries,
// penalties and bias alone, so the same problem always gets the same answer. docs/reference/linear.md has the table.
// O(rows + entries).
SolverChoice ChooseSolver(const LinearProblem& problem);

struct LinearTrainOptions {
  LinearSolver solver = LinearSolver::kLbfgs;
  // Makes `solver` the first choice only. Every kPassesBetweenLooks passes, the progress made so far is compared with
  // what other solvers would need from there. One that would need less than half goes on from the same weights. Only
  // counts decide, and the solver changes at most kMostChanges times.
  bool adaptive = false;
  SvrgOptions svrg;  // Its seed also orders the rows of kDual.
  // Converged when the largest entry of the gradient, divided by the root mean square of its column, is at most this
  // times the largest one at w = 0; and, at l2 > 0, h(w) - min h <= kGapShare h(w). >= 0.
  double tolerance = 1e-8;
  int64_t max_iterations = 1000;                // >= 0
  int64_t max_memory_bytes = int64_t{4} << 30;  // Limit of the solver's vectors, see CheckVectors.
};

// RESOURCE_EXHAUSTED, with the numbers, when the vectors (and for newton_cholesky the matrices) that a solver holds for
// `dim` weights are above max_bytes.
absl::Status CheckVectors(LinearSolver solver, int64_t dim, int64_t max_bytes);

// Checks that `solver` fits `problem`. INVALID_ARGUMENT if it does not: "dual" and "svrg" need l2 > 0, the same for all
// weights; Newton's method with hinges needs l2 > 0; "dual" takes no free bias; "newton_cholesky" takes at most
// kMaxDirectColumns columns. Returns errors of CheckVectors, too.
absl::Status CheckSolver(const LinearProblem& problem, LinearSolver solver, int64_t max_bytes);

// Trains one linear classifier; the same promises as LogisticTrainer (trainer.h): looking changes nothing, stopping
// changes nothing and is seen anywhere, a saved trainer goes on bit for bit. An iteration is one of L-BFGS or Newton's
// method, or about a pass over the rows. `problem` must outlive this. Not thread-safe.
//
// A small gradient alone does not make a minimum: at weak penalties h may still fall far along directions in which it
// is flat. So a claim of convergence is checked against a bound on h(w) - min h (LinearProblem::DualityGap, or what
// Newton's last step promised), and the tolerance is tightened until the bound holds. A claim of kPrecision is checked
// by a Newton step, at last with the Hessian that bounds h from above: if that lowers h, training goes on.
class LinearTrainer {
 public:
  static constexpr double kGapShare = 1e-8;
  static constexpr double kPassesBetweenLooks = 10.0;
  static constexpr int kMostChanges = 2;

  // Errors of CheckSolver.
  static absl::StatusOr<LinearTrainer> Create(const LinearProblem* problem, const LinearTrainOptions& options);

  // Starts at w instead of 0. Before the first Advance only.
  void WarmStart(Eigen::VectorXd w);

  // CANCELLED when stopped.
  absl::StatusOr<TrainOutcome> Advance(const base::StopToken& stop);

  TrainOutcome outcome() const { return outcome_; }
  int64_t iteration() const { return iteration_; }
  bool started() const { return started_; }
  // The solver at work, and for people how it came to be that one after the first choice; empty: it is the first.
  LinearSolver solver() const { return solver_; }
  const std::string& changes() const { return changes_; }
  // Evaluations of one row (loss and gradient, also a loss alone, Hessian product, coordinate step), divided by the
  // rows; a Hessian counts by its multiplications (LinearFunction). Of finished calls of Advance.
  double passes() const { return passes_; }
  Eigen::VectorXd Weights() const;
  // The largest gradient entry as a multiple of the one at w = 0, both divided by the scale of their columns: of the
  // last weights whose gradient was computed. 1 before.
  double relative_gradient() const { return relative_gradient_; }
  // Bound on h(w) - min h as a multiple of h(0), where there is one; infinite elsewhere.
  double relative_gap() const { return relative_gap_; }
  // h(w) - D(alpha) >= 0 with the solver's own dual variables; infinite for solvers without. Two passes.
  double DualityGap() const;

  void Save(base::CheckpointWriter* writer, absl::string_view identity) const;
  // For a trainer made alike. FAILED_PRECONDITION for another identity, DATA_LOSS when the bytes do not fit; this is
  // then of no use.
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity);

  static constexpr int64_t kMaxDirectColumns = 4000;

 private:
  LinearTrainer(const LinearProblem* problem, const LinearTrainOptions& options);
  bool stochastic() const { return dual_ != nullptr || svrg_ != nullptr; }
  bool newton() const { return solver_ == LinearSolver::kNewtonCg || solver_ == LinearSolver::kNewtonCholesky; }
  // Makes solver_ as new.
  void MakeSolver();
  double PassesNow() const;
  void SetTolerance();
  absl::Status ZeroGradient(const base::StopToken& stop);
  absl::StatusOr<SolveState> StartSolver(const base::StopToken& stop);
  absl::Status SetMetric(const Eigen::VectorXd& gradient, const base::StopToken& stop);
  absl::StatusOr<SolveState> StepSolver(const base::StopToken& stop);
  absl::StatusOr<SolveState> CheckStochastic(const base::StopToken& stop);
  // Each of these checks a solver's claim. It returns the claim itself, or kRunning when the check does not bear it
  // out.
  absl::StatusOr<SolveState> CheckConverged(const base::StopToken& stop);
  absl::StatusOr<SolveState> CheckPrecision(const base::StopToken& stop);
  // Returns how far the weights are from what convergence asks for: 1 there, above 1 before.
  double Distance() const;
  // Changes the solver where another is expected to need less than half of the passes.
  void LookAround();
  void ChangeTo(LinearSolver solver, Eigen::VectorXd w);
  bool Left(LinearSolver solver) const { return (left_ >> static_cast<int>(solver) & 1) != 0; }
  // Gradient and value at Weights(), where the solver has them.
  const Eigen::VectorXd& gradient() const;
  double value() const;

  const LinearProblem* problem_;
  LinearTrainOptions options_;
  LinearSolver solver_;
  TrainOutcome outcome_ = TrainOutcome::kRunning;
  bool started_ = false;
  bool solver_started_ = false;
  int64_t iteration_ = 0;
  double zero_gradient_ = -1.0;  // Largest entry of grad h(0), by column_scale. Negative: not computed yet.
  double zero_value_ = 0.0;      // h(0)
  double extra_passes_ = 0.0;    // Passes of this class and of solvers before.
  double passes_ = 0.0;
  double tightened_ = 1.0;  // Factor of the tolerance.
  double relative_gradient_ = 1.0;
  double relative_gap_ = INFINITY;
  Eigen::VectorXd start_;
  LbfgsSolver lbfgs_;
  NewtonSolver newton_;
  std::unique_ptr<LinearFunction> function_;
  std::unique_ptr<DualCoordinateDescent> dual_;
  std::unique_ptr<Svrg> svrg_;
  // Gradient and value of the last exact evaluation for a stochastic solver.
  Eigen::VectorXd exact_gradient_;
  double exact_value_ = 0.0;
  // Stochastic solvers: the best gradient seen, to notice that rounding has taken over, and since when nothing better.
  double best_gradient_ = INFINITY;
  int64_t best_iteration_ = 0;
  int64_t solver_iteration_ = 0;  // Iteration of solver_.
  int64_t next_check_ = 0;        // Iteration of solver_ at which the gradient is looked at again.
  // The iteration is done, and whether the gradient is to be looked at is still to be seen; a claim is to be checked.
  bool check_pending_ = false;
  SolveState claim_ = SolveState::kRunning;
  // Adaptive: passes when the solver began, and passes and Distance() at the last look around.
  double solver_passes_ = 0.0;
  double look_passes_ = 0.0;
  double look_distance_ = INFINITY;
  int changes_made_ = 0;
  int64_t left_ = 0;  // Bits of the solvers that others have gone on from: none is returned to.
  std::string changes_;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_TRAINER_H_
