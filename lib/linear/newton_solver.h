#ifndef LUTHIER_LIB_LINEAR_NEWTON_SOLVER_H_
#define LUTHIER_LIB_LINEAR_NEWTON_SOLVER_H_

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"

namespace luthier::linear {

// A function with its second derivatives, for Newton's method. HessianVector and HessianDiagonal
// refer to the point of the last SetPoint. Long computations poll `stop`, and return CANCELLED when
// stopped.
class SecondOrderFunction {
 public:
  virtual ~SecondOrderFunction() = default;
  virtual absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                                       const base::StopToken& stop) = 0;
  virtual absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) = 0;
  virtual absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) = 0;
  virtual absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) = 0;
  // Return the costs of SetPoint, and of a factorisation (PreparePreconditioner, SolveHessian), in
  // units of Value: passes over the rows.
  virtual double point_passes() const { return 0.0; }
  virtual double factor_passes() const { return 0.0; }
  // Prepares Precondition(r) = M^-1 r for conjugate gradients, M a matrix near the Hessian. Returns
  // false if there is none; they then take the diagonal. Called once a point.
  virtual absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& /*stop*/) { return false; }
  virtual Eigen::VectorXd Precondition(const Eigen::VectorXd& r) { return r; }
  // True if SolveHessian is to be used instead of conjugate gradients.
  virtual bool direct() const { return false; }
  // For direct functions. `keeps_factor` is true if the factor of an earlier point is worth keeping
  // as a preconditioner, because the Hessian changes little from step to step. `HasFactorOf` is
  // true if the current factor is that of `x`, without floor and ridge. `MakeFactor` computes the
  // factor at the last SetPoint, and returns false if that failed.
  virtual bool keeps_factor() const { return false; }
  virtual bool HasFactorOf(const Eigen::VectorXd& /*x*/) const { return false; }
  virtual absl::StatusOr<bool> MakeFactor(const base::StopToken& /*stop*/) { return false; }
  // From the next SetPoint on, raises curvatures of the losses to at least `share` (0 to 1) of
  // their largest possible one. With 1 the quadratic model bounds the function from above
  // everywhere, so a full step never raises it.
  virtual void SetFloor(double /*share*/) {}
  virtual bool has_floor() const { return false; }
  // From the next SetPoint on, the Hessian and LineMinimum are those of f(x) + 1/2 sum_j ridge_j
  // x_j^2. An empty ridge means f.
  virtual void SetRidge(const Eigen::VectorXd& /*ridge*/) {}
  // Returns `share` of the ridge with which minimisation begins. Losses with straight parts have no
  // curvature there, so Newton's direction needs a ridge. Returns an empty vector if the ridge
  // would change next to nothing.
  virtual Eigen::VectorXd Ridge(double /*share*/) const { return {}; }
  // Returns roughly the step a > 0 at which f(x + a d) is least, or 0 if that is not known. x is
  // the point of the last SetPoint. Writes the cost to *passes.
  virtual absl::StatusOr<double> LineMinimum(const Eigen::VectorXd& /*x*/, const Eigen::VectorXd& /*d*/,
                                             const base::StopToken& /*stop*/, double* /*passes*/) {
    return 0.0;
  }
  // Returns x with H x = b, or an empty vector if that failed.
  virtual absl::StatusOr<Eigen::VectorXd> SolveHessian(const Eigen::VectorXd& /*b*/, const base::StopToken& /*stop*/) {
    return Eigen::VectorXd();
  }
};

// Truncated Newton for convex functions (Nocedal & Wright 2006, algorithm 7.1), one iteration at a
// time. The direction comes from the function's direct solver if it has one. Otherwise it comes
// from conjugate gradients, with the function's preconditioner or Jacobi's, to the residual
// min(forcing, sqrt(|g|/|g_0|)) |g|. The step is 1 if that is about the minimum along the
// direction, else that minimum (LineMinimum), else backtracking finds one by Armijo's condition.
// Convergence is superlinear, so gradients near the rounding limit are cheap.
//
// Functions with straight parts are minimised along a path of ridges (Ridge): roughly with a first
// ridge, then from there with smaller ones, and at last without. kPrecision means that a step
// lowered neither f nor the gradient. If the function has a floor (SetFloor), that was a step with
// floor 1, where only rounding can raise f.
class NewtonSolver {
 public:
  // `forcing` is in (0, 1): 0.5 far from the optimum, where exact steps are a waste, and 1e-4, say,
  // close to it.
  explicit NewtonSolver(double tolerance = 0.0, double forcing = 0.5) : tolerance_(tolerance), forcing_(forcing) {}

  void set_tolerance(double tolerance) { tolerance_ = tolerance; }
  // Divides the entries of the gradient by `scale` before they are compared with the tolerance.
  // Entries are > 0; empty means 1.
  void set_scale(Eigen::VectorXd scale) { scale_ = std::move(scale); }
  // Turns the path of ridges on or off, from the next Start on; at first it is on. Near an optimum
  // it is not needed.
  void set_path(bool path) { path_ = path; }
  // True while there still is a ridge.
  bool path_left() const { return ridge_.size() > 0; }
  // Start begins at x0, Step runs one iteration. They return CANCELLED when stopped: Start must
  // then be called again, and a Step has changed nothing.
  absl::StatusOr<SolveState> Start(SecondOrderFunction& f, Eigen::VectorXd x0, const base::StopToken& stop = {});
  absl::StatusOr<SolveState> Step(SecondOrderFunction& f, const base::StopToken& stop);

  const Eigen::VectorXd& x() const { return x_; }
  double value() const { return value_; }
  const Eigen::VectorXd& gradient() const { return gradient_; }
  // Returns the gain that the quadratic model of the last step predicted. Near the optimum the
  // point before that step was about as much above the minimum. Infinite before the first step, and
  // after a step with a floor or ridge.
  double promised() const { return promised_; }
  int64_t evaluations() const { return evaluations_; }
  int64_t hessian_products() const { return products_; }
  // Returns the passes over the rows of finished iterations: evaluations, products, diagonals of
  // Hessians, and other costs that the function reports.
  double passes() const { return static_cast<double>(evaluations_ + products_) + other_passes_; }

  void Save(base::CheckpointWriter* writer) const;
  bool Load(base::CheckpointReader* reader, Eigen::Index dim);

 private:
  // Cost of a step, kept apart until the step is finished.
  struct Cost {
    int64_t evaluations = 0;
    int64_t products = 0;
    double others = 0.0;
  };
  struct Point {
    Eigen::VectorXd x, gradient;
    double value = 0.0;
    double step = 0.0;  // Multiple of the direction.
  };
  enum class Search { kFound, kFailed, kNonFinite };

  // Computes Newton's direction at x_ for `gradient`, that of f plus the ridge. Sets `factor_point`
  // to the point whose factor the next step is to use, or to an empty vector.
  absl::Status Direction(SecondOrderFunction& f, double floor, const Eigen::VectorXd& gradient,
                         const base::StopToken& stop, Cost* cost, Eigen::VectorXd* direction,
                         Eigen::VectorXd* factor_point) const;
  absl::StatusOr<Search> LineSearch(SecondOrderFunction& f, const Eigen::VectorXd& gradient,
                                    const Eigen::VectorXd& direction, const base::StopToken& stop, Cost* cost,
                                    Point* found) const;
  // Returns the gradient of f plus its ridge at `x`, where f has `gradient`.
  Eigen::VectorXd WithRidge(const Eigen::VectorXd& x, const Eigen::VectorXd& gradient) const;
  double RidgeValue(const Eigen::VectorXd& x) const;
  void LowerRidge(const SecondOrderFunction& f);

  double tolerance_;
  Eigen::VectorXd scale_;
  double forcing_;
  Eigen::VectorXd x_;
  double value_ = 0.0;
  Eigen::VectorXd gradient_;
  double first_gradient_ = 0.0;  // |g_0|
  double promised_ = INFINITY;
  bool path_ = true;
  Eigen::VectorXd factor_point_;  // Point of a factor that the next step can use; else empty.
  Eigen::VectorXd ridge_;         // Empty if there is no ridge (any more).
  double ridge_share_ = 0.0;      // ridge_ as a share of the first ridge.
  int64_t ridge_steps_ = 0;       // Number of steps with this ridge.
  int64_t evaluations_ = 0;
  int64_t products_ = 0;
  double other_passes_ = 0.0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_NEWTON_SOLVER_H_
