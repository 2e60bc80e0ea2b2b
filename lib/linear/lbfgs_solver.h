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

// Unbounded limited-memory BFGS (Nocedal & Wright 2006, algorithm 7.5) one iteration at a time, for training. (Bounded
// problems of the search algorithms: lib/math/lbfgs.h.)
//
// Strong Wolfe line search, c1 = 1e-4, c2 = 0.9, by bracketing and safeguarded interpolation. Close to the optimum,
// where differences of f drown in rounding, decrease is judged by the slope instead (the approximate Wolfe condition of
// Hager & Zhang 2005, eq. 4.1), so gradients far below sqrt(machine epsilon) are reached. Pairs are kept when s'y >
// 1e-10 |s||y|. After a failed line search: once more along -gradient, then kPrecision.
class LbfgsSolver {
 public:
  // Converged when the largest gradient entry is at most `tolerance` (absolute, >= 0).
  explicit LbfgsSolver(double tolerance = 0.0) : tolerance_(tolerance) {}

  void set_tolerance(double tolerance) { tolerance_ = tolerance; }
  // As NewtonSolver has it.
  void set_scale(Eigen::VectorXd scale) { scale_ = std::move(scale); }
  // A diagonal near f's Hessian, entries > 0: the method then goes as without it in the variables sqrt(diagonal) x.
  // Empty: 1. `first_step`: of the first direction, -gradient / diagonal; 0: at most 1 / |gradient|_1.
  void set_metric(Eigen::VectorXd diagonal, double first_step) {
    diagonal_ = std::move(diagonal);
    first_step_ = first_step;
  }
  // Evaluates f at x0. kConverged, kNonFinite, or kRunning. Errors of f, which may be stopped: nothing has begun then.
  absl::StatusOr<SolveState> Start(ValueAndGradient f, Eigen::VectorXd x0);
  // One iteration (after Start or Load). CANCELLED when stopped, or f was.
  absl::StatusOr<SolveState> Step(ValueAndGradient f, const base::StopToken& stop);

  const Eigen::VectorXd& x() const { return x_; }
  double value() const { return value_; }
  const Eigen::VectorXd& gradient() const { return gradient_; }
  int64_t evaluations() const { return evaluations_; }

  // The whole state but the tolerance and the scale. A solver that loads it goes on bit for bit as the one that saved
  // it.
  void Save(base::CheckpointWriter* writer) const;
  // False when the bytes do not fit a problem of dimension `dim`; the solver is then unusable until Start.
  bool Load(base::CheckpointReader* reader, Eigen::Index dim);

 private:
  struct Pair {
    Eigen::VectorXd s;
    Eigen::VectorXd y;
    double rho;  // 1 / s'y
  };

  // Returns the direction of the next step.
  absl::StatusOr<Eigen::VectorXd> Direction(const base::StopToken& stop) const;
  // LineSearch says if it found a step, and fills the new point.
  enum class Search { kFound, kFailed, kNonFinite };
  absl::StatusOr<Search> LineSearch(ValueAndGradient f, const Eigen::VectorXd& direction, double first,
                                    const base::StopToken& stop, int64_t* evaluations, Eigen::VectorXd* x,
                                    double* value, Eigen::VectorXd* gradient) const;
  bool Stalled();

  // Gradient / diagonal.
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
  // Value and largest gradient entry some iterations ago, to notice that nothing moves any more.
  double reference_value_ = 0.0;
  double reference_gradient_ = 0.0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LBFGS_SOLVER_H_
