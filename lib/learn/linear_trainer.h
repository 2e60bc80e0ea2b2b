#ifndef LUTHIER_LIB_LEARN_LINEAR_TRAINER_H_
#define LUTHIER_LIB_LEARN_LINEAR_TRAINER_H_

#include <Eigen/Core>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/learn/dual_coordinate_descent.h"
#include "lib/learn/lbfgs_solver.h"
#include "lib/learn/linear_problem.h"
#include "lib/learn/newton_solver.h"
#include "lib/learn/svrg.h"
#include "lib/learn/trainer.h"

namespace luthier::learn {

enum class LinearSolver { kLbfgs, kNewtonCg, kNewtonCholesky, kDual, kSvrg };

// "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg", in the order of the enum.
const std::vector<std::string>& LinearSolverNames();
absl::StatusOr<LinearSolver> ParseLinearSolver(absl::string_view name);

// Whether it is for problems with one strength alone. Others become such by a change of variables: columns divided by
// s_j = sqrt(l2_j / l2) have the weights s_j w_j, and all of these the strength l2.
bool NeedsOneStrength(LinearSolver solver);

struct SolverChoice {
  LinearSolver solver = LinearSolver::kLbfgs;
  std::string reason;  // One sentence with the numbers it rests on.
};

// The solver that our measurements say is fastest for such data: docs/reference/linear.md has the table. Looks at rows,
// columns, entries, l2 and the bias alone, so the same data always get the same answer. O(rows + entries).
SolverChoice ChooseSolver(const LinearProblem& problem);

struct LinearTrainOptions {
  LinearSolver solver = LinearSolver::kLbfgs;
  SvrgOptions svrg;  // Its seed also orders the rows of kDual.
  // Converged when the largest entry of the gradient is at most this times the largest one at w = 0. >= 0.
  double tolerance = 1e-8;
  int64_t max_iterations = 1000;                // >= 0
  int64_t max_memory_bytes = int64_t{4} << 30;  // Of the solver's vectors, see CheckVectors.
};

// RESOURCE_EXHAUSTED, with the numbers, when the vectors (and for newton_cholesky the matrices) that a solver holds for
// `dim` weights are above max_bytes.
absl::Status CheckVectors(LinearSolver solver, int64_t dim, int64_t max_bytes);

// Trains one linear classifier; the same promises as LogisticTrainer (trainer.h): looking changes nothing, stopping
// changes nothing and is seen anywhere, a saved trainer goes on bit for bit. An iteration is one of L-BFGS or Newton's
// method, or about a pass over the rows. `problem` must outlive this. Not thread-safe.
class LinearTrainer {
 public:
  // INVALID_ARGUMENT when the solver does not fit the problem: "dual" and "svrg" need l2 > 0, the same for all
  // weights, Newton's method with hinges l2 > 0; "dual" no free bias, "newton_cholesky" at most kMaxDirectColumns
  // columns. Errors of CheckVectors.
  static absl::StatusOr<LinearTrainer> Create(const LinearProblem* problem, const LinearTrainOptions& options);

  // Starts at w instead of 0. Before the first Advance only.
  void WarmStart(Eigen::VectorXd w);

  TrainOutcome Advance(const std::atomic<bool>* stop);

  TrainOutcome outcome() const { return outcome_; }
  int64_t iteration() const { return iteration_; }
  bool started() const { return started_; }
  // Evaluations of one row (loss and gradient, also a loss alone, Hessian product, coordinate step), divided by the
  // rows; a Hessian counts by its multiplications (LinearFunction). Of finished calls of Advance.
  double passes() const { return passes_; }
  Eigen::VectorXd Weights() const;
  // h(w) - D(alpha) >= 0, a bound on h(w) - min h; infinite for solvers without dual variables. Two passes.
  double DualityGap() const;

  void Save(CheckpointWriter* writer, absl::string_view identity) const;
  // For a trainer made alike. FAILED_PRECONDITION for another identity, DATA_LOSS when the bytes do not fit; this is
  // then of no use.
  absl::Status Load(CheckpointReader* reader, absl::string_view identity);

  static constexpr int64_t kMaxDirectColumns = 4000;

 private:
  LinearTrainer(const LinearProblem* problem, const LinearTrainOptions& options);
  bool stochastic() const { return dual_ != nullptr || svrg_ != nullptr; }
  bool newton() const {
    return options_.solver == LinearSolver::kNewtonCg || options_.solver == LinearSolver::kNewtonCholesky;
  }
  double PassesNow() const;
  void SetTolerance();
  void SetTolerance(const Eigen::VectorXd& zero_gradient);
  SolveState StartSolver(const std::atomic<bool>* stop);
  SolveState CheckStochastic(const std::atomic<bool>* stop);

  const LinearProblem* problem_;
  LinearTrainOptions options_;
  TrainOutcome outcome_ = TrainOutcome::kRunning;
  bool started_ = false;
  int64_t iteration_ = 0;
  double zero_gradient_ = 0.0;  // Largest entry of grad h(0).
  double extra_passes_ = 0.0;   // Of this class.
  double passes_ = 0.0;
  Eigen::VectorXd start_;
  LbfgsSolver lbfgs_;
  NewtonSolver newton_;
  std::unique_ptr<LinearFunction> function_;
  std::unique_ptr<DualCoordinateDescent> dual_;
  std::unique_ptr<Svrg> svrg_;
  // Stochastic solvers: the best gradient seen, to notice that rounding has taken over, and since when nothing better.
  double best_gradient_ = INFINITY;
  int64_t best_iteration_ = 0;
  int64_t next_check_ = 0;  // Iteration at which the gradient is looked at again.
  bool check_pending_ =
      false;  // The iteration is done, and whether the gradient is to be looked at is still to be seen.
};

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_LINEAR_TRAINER_H_
