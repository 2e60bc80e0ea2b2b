#ifndef LUTHIER_LIB_LEARN_NEWTON_SOLVER_H_
#define LUTHIER_LIB_LEARN_NEWTON_SOLVER_H_

#include <Eigen/Core>
#include <atomic>
#include <cstdint>

#include "lib/learn/checkpoint.h"
#include "lib/learn/minimizer.h"

namespace luthier::learn {

// A function with curvature, as Newton's method needs it. HessianVector and HessianDiagonal refer to the point of the
// last SetPoint. A long one looks at `stop` (may be null) itself; what comes back is of no use once that is set.
class SecondOrderFunction {
 public:
  virtual ~SecondOrderFunction() = default;
  virtual double Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient, const std::atomic<bool>* stop) = 0;
  virtual void SetPoint(const Eigen::VectorXd& x, const std::atomic<bool>* stop) = 0;
  virtual Eigen::VectorXd HessianVector(const Eigen::VectorXd& v, const std::atomic<bool>* stop) = 0;
  virtual Eigen::VectorXd HessianDiagonal(const std::atomic<bool>* stop) = 0;
  // What SetPoint, and what a factorisation (PreparePreconditioner, SolveHessian), cost in passes over the rows: in
  // units of Value.
  virtual double point_passes() const { return 0.0; }
  virtual double factor_passes() const { return 0.0; }
  // Whether Precondition(r) = M^-1 r, M a matrix near the Hessian, is there for the conjugate gradients; else they take
  // the diagonal. Called once a point. False when `stop` was seen, too.
  virtual bool PreparePreconditioner(const std::atomic<bool>* /*stop*/) { return false; }
  virtual Eigen::VectorXd Precondition(const Eigen::VectorXd& r) { return r; }
  // Whether SolveHessian is to be used instead of conjugate gradients.
  virtual bool direct() const { return false; }
  // x with H x = b; empty when that failed, or when `stop` was seen.
  virtual Eigen::VectorXd SolveHessian(const Eigen::VectorXd& /*b*/, const std::atomic<bool>* /*stop*/) { return {}; }
};

// Truncated Newton for convex functions (Nocedal & Wright 2006, algorithm 7.1), one iteration at a time: conjugate
// gradients, with the function's preconditioner or Jacobi's, to the residual min(forcing, sqrt(|g|/|g_0|)) |g|, or a
// direct solver where the function has one, then Armijo backtracking. Superlinear convergence, so gradients near the
// rounding limit are cheap. Same outcomes as LbfgsSolver.
class NewtonSolver {
 public:
  // `forcing` in (0, 1): 0.5 far from the optimum, where exact steps are a waste; 1e-4, say, close to it.
  explicit NewtonSolver(double tolerance = 0.0, double forcing = 0.5) : tolerance_(tolerance), forcing_(forcing) {}

  void set_tolerance(double tolerance) { tolerance_ = tolerance; }
  // kStopped: nothing has begun.
  SolveState Start(SecondOrderFunction& f, Eigen::VectorXd x0, const std::atomic<bool>* stop = nullptr);
  SolveState Step(SecondOrderFunction& f, const std::atomic<bool>* stop);

  const Eigen::VectorXd& x() const { return x_; }
  double value() const { return value_; }
  const Eigen::VectorXd& gradient() const { return gradient_; }
  int64_t evaluations() const { return evaluations_; }
  int64_t hessian_products() const { return products_; }
  // Passes over the rows: evaluations, products, diagonals of Hessians, and what the function says of the rest. Of
  // finished iterations.
  double passes() const { return static_cast<double>(evaluations_ + products_) + other_passes_; }

  void Save(CheckpointWriter* writer) const;
  bool Load(CheckpointReader* reader, Eigen::Index dim);

 private:
  void Count(int64_t evaluations, int64_t products, double others);

  double tolerance_;
  double forcing_;
  Eigen::VectorXd x_;
  double value_ = 0.0;
  Eigen::VectorXd gradient_;
  double first_gradient_ = 0.0;  // |g_0|
  int64_t evaluations_ = 0;
  int64_t products_ = 0;
  double other_passes_ = 0.0;
};

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_NEWTON_SOLVER_H_
