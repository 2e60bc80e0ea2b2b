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
#include "lib/linear/newton_solver.h"
#include "lib/linear/penalized_problem.h"
#include "lib/linear/svrg.h"
#include "lib/linear/training_state.h"

namespace luthier::linear {

// "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg", in the order of the enum.
const std::vector<std::string>& LinearSolverNames();
absl::StatusOr<LinearSolver> ParseLinearSolver(absl::string_view name);

// Returns true if `solver` takes only problems with one penalty for all weights. A change of
// variables gives other problems this form: columns divided by s_j = sqrt(l2_j / l2) have the
// weights s_j w_j, which all have the penalty l2.
bool NeedsOnePenalty(LinearSolver solver);

struct SolverChoice {
  LinearSolver solver = LinearSolver::kLbfgs;
  std::string reason;  // One sentence with the numbers that decided.
};

// Returns the solver that is estimated to need the fewest passes for `problem` from w = 0. The
// estimate depends on its rows, columns, entries, penalties, bias and loss alone, so the same
// problem always gets the same answer. docs/reference/linear.md has the table. O(rows + entries).
SolverChoice ChooseSolver(const PenalizedProblem& problem);

struct LinearTrainOptions {
  LinearSolver solver = LinearSolver::kLbfgs;
  // Makes `solver` the first choice only. Every kPassesBetweenLooks passes, the progress made so far is compared with
  // what other solvers would need from there. One that would need less than half goes on from the same weights. Only
  // counts decide, and the solver changes at most kMostChanges times.
  bool adaptive = false;
  SvrgOptions svrg;  // Its seed also orders the rows of kDual.
  // Training has converged under two conditions. The largest entry of the gradient, each divided by
  // the root mean square of its column, is at most this times the largest one at w = 0. If l2 > 0,
  // also h(w) - min h <= gap_share h(w). >= 0.
  double tolerance = 1e-8;
  double gap_share = 1e-8;
  int64_t max_iterations = 1000;                // >= 0
  int64_t max_memory_bytes = int64_t{4} << 30;  // Limit of the solver's vectors, see CheckVectors.
};

// Returns RESOURCE_EXHAUSTED, with the numbers, if the vectors (for newton_cholesky also the
// matrices) that a solver holds for `dim` weights need more than `max_bytes`.
absl::Status CheckVectors(LinearSolver solver, int64_t dim, int64_t max_bytes);

// Checks that `solver` fits `problem`. Returns INVALID_ARGUMENT if it does not: "dual" and "svrg" need two classes and
// l2 > 0, the same for all weights; Newton's method with hinges needs l2 > 0; "newton_cholesky" takes at most
// kMaxDirectColumns weights. Returns errors of CheckVectors, too.
absl::Status CheckSolver(const PenalizedProblem& problem, LinearSolver solver, int64_t max_bytes);

// Trains one linear classifier. Reading it and stopping it do not change the weights, `stop` is polled at the pace of
// lib/base/pace.h, also within an iteration, which is then discarded, and a saved trainer continues bit for bit. An
// iteration is one of L-BFGS or Newton's method, or about a pass over the rows. `problem` must outlive this. Not
// thread-safe.
//
// A small gradient alone does not make a minimum: at weak penalties h may still fall far along
// directions in which it is flat. So if l2 > 0, convergence is confirmed by a bound on h(w) - min h
// (PenalizedProblem::DualityGap, or the gain that Newton's last step predicted); until the bound
// holds, the tolerance is tightened. kPrecision of a solver other than Newton's method is confirmed
// by a Newton step, at last with the Hessian that bounds h from above; if that lowers h, training
// goes on.
class LinearTrainer {
 public:
  static constexpr double kPassesBetweenLooks = 10.0;
  static constexpr int kMostChanges = 2;

  // Returns the errors of CheckSolver.
  static absl::StatusOr<LinearTrainer> Create(const PenalizedProblem* problem, const LinearTrainOptions& options);

  // Starts at w instead of 0. Before the first Advance only.
  void WarmStart(Eigen::VectorXd w);

  // Starts at the first call, and runs one iteration at each later one. Returns CANCELLED when
  // stopped; the next call then does what is left.
  absl::StatusOr<TrainOutcome> Advance(const base::StopToken& stop);

  TrainOutcome outcome() const { return outcome_; }
  int64_t iteration() const { return iteration_; }
  bool started() const { return started_; }
  // Return the solver in use, and a text for people that says how it replaced the first choice; the
  // text is empty if it did not.
  LinearSolver solver() const { return solver_; }
  const std::string& changes() const { return changes_; }
  // Returns the evaluations of one row (loss and gradient, also a loss alone, Hessian product,
  // coordinate step) of finished calls of Advance, divided by the number of rows. A Hessian counts
  // by its multiplications (LinearFunction).
  double passes() const { return passes_; }
  Eigen::VectorXd Weights() const;
  // Returns the largest gradient entry as a multiple of the one at w = 0, both divided by the scale
  // of their columns, at the last weights whose gradient was computed. Returns 1 before that.
  double relative_gradient() const { return relative_gradient_; }
  // Returns the bound on h(w) - min h as a multiple of h(0), or infinity if none was computed.
  double relative_gap() const { return relative_gap_; }
  // Returns h(w) - D(alpha) >= 0 with the solver's own dual variables, or infinity if it has none that meet the
  // constraint of a free bias. Costs two passes.
  double DualityGap() const;

  void Save(base::CheckpointWriter* writer, absl::string_view identity) const;
  // Loads the state of a trainer that was made with the same arguments. Returns FAILED_PRECONDITION
  // for another identity, and DATA_LOSS if the bytes do not fit. This must then not be used.
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity);

  static constexpr int64_t kMaxDirectColumns = 4000;

 private:
  LinearTrainer(const PenalizedProblem* problem, const LinearTrainOptions& options);
  bool stochastic() const { return dual_ != nullptr || svrg_ != nullptr; }
  bool newton() const { return solver_ == LinearSolver::kNewtonCg || solver_ == LinearSolver::kNewtonCholesky; }
  // Creates the solver that solver_ names, without progress.
  void MakeSolver();
  double PassesNow() const;
  void SetTolerance();
  absl::Status ZeroGradient(const base::StopToken& stop);
  absl::StatusOr<SolveState> StartSolver(const base::StopToken& stop);
  absl::Status SetMetric(const Eigen::VectorXd& gradient, const base::StopToken& stop);
  absl::StatusOr<SolveState> StepSolver(const base::StopToken& stop);
  absl::StatusOr<SolveState> CheckStochastic(const base::StopToken& stop);
  // Each of these checks the state that a solver reports. It returns that state if the check
  // confirms it, and kRunning otherwise.
  absl::StatusOr<SolveState> CheckConverged(const base::StopToken& stop);
  absl::StatusOr<SolveState> CheckPrecision(const base::StopToken& stop);
  // Returns the distance from convergence: 1 at convergence, above 1 before.
  double Distance() const;
  // Changes the solver if another one is expected to need less than half of the passes.
  void LookAround();
  void ChangeTo(LinearSolver solver, Eigen::VectorXd w);
  bool Left(LinearSolver solver) const { return (left_ >> static_cast<int>(solver) & 1) != 0; }
  // Return gradient and value at Weights(), if the solver has them.
  const Eigen::VectorXd& gradient() const;
  double value() const;

  const PenalizedProblem* problem_;
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
  std::unique_ptr<SecondOrderFunction> function_;
  std::unique_ptr<DualCoordinateDescent> dual_;
  std::unique_ptr<Svrg> svrg_;
  // Gradient and value of the last exact evaluation for a stochastic solver.
  Eigen::VectorXd exact_gradient_;
  double exact_value_ = 0.0;
  // Stochastic solvers: the best gradient so far and its iteration. If neither changes for long,
  // the error is rounding.
  double best_gradient_ = INFINITY;
  int64_t best_iteration_ = 0;
  int64_t solver_iteration_ = 0;  // Iteration of solver_.
  int64_t next_check_ = 0;        // Iteration of solver_ at which the gradient is checked again.
  // True if an iteration of a stochastic solver is done, but not the check whether its gradient is
  // due. `claim_` is a final state that the solver reports and that is not checked yet.
  bool check_pending_ = false;
  SolveState claim_ = SolveState::kRunning;
  // Adaptive: passes when the solver began, and passes and Distance() at the last look around.
  double solver_passes_ = 0.0;
  double look_passes_ = 0.0;
  double look_distance_ = INFINITY;
  int changes_made_ = 0;
  int64_t left_ = 0;  // Bits of the solvers that were replaced, which are not used again.
  std::string changes_;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_TRAINER_H_
