#ifndef LUTHIER_LIB_LINEAR_LBFGS_SOLVER_H_
#define LUTHIER_LIB_LINEAR_LBFGS_SOLVER_H_

#include <Eigen/Core>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"

namespace luthier::linear {

// Unbounded limited-memory BFGS (Nocedal & Wright 2006, algorithm 7.5), one iteration at a time,
// for training. The search algorithms, whose problems are bounded, use lib/math/lbfgs.h.
//
// The line search asks for the strong Wolfe conditions, c1 = 1e-4 and c2 = 0.9, by bracketing and
// safeguarded interpolation. Close to the optimum, where differences of f are below rounding, it
// judges the decrease by the slope instead (the approximate Wolfe condition of Hager & Zhang 2005,
// eq. 4.1). So it reaches gradients far below sqrt(machine epsilon). Pairs are kept if s'y > 1e-10
// |s||y|. A failed line search is repeated along the direction of steepest descent; if that fails,
// too, the state is kPrecision.
class LbfgsSolver {
 public:
  // The solver has converged when the largest gradient entry is at most `tolerance` (absolute, >=
  // 0).
  explicit LbfgsSolver(double tolerance = 0.0) : tolerance_(tolerance) {}

  void set_tolerance(double tolerance) { tolerance_ = tolerance; }
  // As NewtonSolver::set_scale.
  void set_scale(Eigen::VectorXd scale) { scale_ = std::move(scale); }
  // Sets a diagonal near f's Hessian, entries > 0; empty means all 1. The method then works in the
  // variables sqrt(diagonal) x. `first_step` is the first multiple of the first direction,
  // -gradient / diagonal, that is tried; 0 means min(1, 1 / |gradient|_1).
  void set_metric(Eigen::VectorXd diagonal, double first_step) {
    diagonal_ = std::move(diagonal);
    first_step_ = first_step;
  }
  // Evaluates f at x0. Returns kConverged, kNonFinite or kRunning. Returns the errors of f, such as
  // CANCELLED; Start must then be called again.
  absl::StatusOr<SolveState> Start(ValueAndGradient f, Eigen::VectorXd x0);
  // Runs one iteration, after Start or Load. Returns CANCELLED when this or f was stopped.
  absl::StatusOr<SolveState> Step(ValueAndGradient f, const base::StopToken& stop);

  const Eigen::VectorXd& x() const { return x_; }
  double value() const { return value_; }
  const Eigen::VectorXd& gradient() const { return gradient_; }
  int64_t evaluations() const { return evaluations_; }

  // Saves the whole state but the tolerance and the scale. A solver that loads it continues bit for
  // bit as this one does.
  void Save(base::CheckpointWriter* writer) const;
  // Returns false if the bytes do not fit a problem of dimension `dim`. The solver is then unusable
  // until Start.
  bool Load(base::CheckpointReader* reader, Eigen::Index dim);

 private:
  struct Pair {
    Eigen::VectorXd s;
    Eigen::VectorXd y;
    double rho;  // 1 / s'y
  };

  // Returns the direction of the next step.
  absl::StatusOr<Eigen::VectorXd> Direction(const base::StopToken& stop) const;
  // The result of LineSearch, which fills in the new point if it finds one, and counts evaluations.
  enum class Search { kFound, kFailed, kNonFinite };
  struct Point {
    Eigen::VectorXd x;
    double value = 0.0;
    Eigen::VectorXd gradient;
    int64_t evaluations = 0;
  };
  absl::StatusOr<Search> LineSearch(ValueAndGradient f, const Eigen::VectorXd& direction, double first,
                                    const base::StopToken& stop, Point* point) const;
  bool Stalled();

  // Returns `gradient` / diagonal_, the negated direction of steepest descent.
  Eigen::VectorXd Steepest(const Eigen::VectorXd& gradient) const;

  double tolerance_;
  Eigen::VectorXd scale_;
  Eigen::VectorXd diagonal_;
  double first_step_ = 0.0;
  Eigen::VectorXd x_;
  double value_ = 0.0;
  Eigen::VectorXd gradient_;
  std::deque<Pair> pairs_;  // Oldest first.
  int64_t iteration_ = 0;
  int64_t evaluations_ = 0;
  // Value and largest gradient entry some iterations ago, by which Stalled finds that progress
  // ended.
  double reference_value_ = 0.0;
  double reference_gradient_ = 0.0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LBFGS_SOLVER_H_
