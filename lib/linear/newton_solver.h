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

// A function with curvature, as Newton's method needs it. HessianVector and HessianDiagonal refer to the point of the
// last SetPoint. A long one looks at `stop` itself, and returns CANCELLED when stopped.
class SecondOrderFunction {
 public:
  virtual ~SecondOrderFunction() = default;
  virtual absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                                       const base::StopToken& stop) = 0;
  virtual absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) = 0;
  virtual absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) = 0;
  virtual absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) = 0;
  // Costs of SetPoint, and of a factorisation (PreparePreconditioner, SolveHessian), in passes over the rows: in units
  // of Value.
  virtual double point_passes() const { return 0.0; }
  virtual double factor_passes() const { return 0.0; }
  // Makes Precondition(r) = M^-1 r, M a matrix near the Hessian, available to the conjugate gradients. False if there
  // is none, and they take the diagonal. Called once a point.
  virtual absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& /*stop*/) { return false; }
  virtual Eigen::VectorXd Precondition(const Eigen::VectorXd& r) { return r; }
  // True if SolveHessian is to be used instead of conjugate gradients.
  virtual bool direct() const { return false; }
  // Direct functions: `keeps_factor` says whether the factor of a point before is worth keeping as a preconditioner,
  // since the Hessian changes little from step to step. `HasFactorOf` tells whether the factor at hand is that of `x`,
  // without floor and ridge. `MakeFactor` makes that of the last SetPoint; false when it failed.
  virtual bool keeps_factor() const { return false; }
  virtual bool HasFactorOf(const Eigen::VectorXd& /*x*/) const { return false; }
  virtual absl::StatusOr<bool> MakeFactor(const base::StopToken& /*stop*/) { return false; }
  // From the next SetPoint on, curvatures of the losses below `share` (0 to 1) of their largest possible one count as
  // that much. With 1 the Hessian bounds the function from above everywhere, so a full step never raises it.
  virtual void SetFloor(double /*share*/) {}
  virtual bool has_floor() const { return false; }
  // From the next SetPoint on, the Hessian and LineMinimum are those of f(x) + 1/2 sum_j ridge_j x_j^2; empty: of f.
  virtual void SetRidge(const Eigen::VectorXd& /*ridge*/) {}
  // The ridge that minimisation begins with (share 1) and a `share` of it: losses with straight parts have no curvature
  // there, and Newton's direction then leads nowhere in particular. Empty: it would change next to nothing.
  virtual Eigen::VectorXd Ridge(double /*share*/) const { return {}; }
  // The step a > 0 at which f(x + a d) is least, roughly; x is the point of the last SetPoint. 0: not known.
  // *passes gets its cost.
  virtual absl::StatusOr<double> LineMinimum(const Eigen::VectorXd& /*x*/, const Eigen::VectorXd& /*d*/,
                                             const base::StopToken& /*stop*/, double* /*passes*/) {
    return 0.0;
  }
  // x with H x = b; empty when that failed.
  virtual absl::StatusOr<Eigen::VectorXd> SolveHessian(const Eigen::VectorXd& /*b*/, const base::StopToken& /*stop*/) {
    return Eigen::VectorXd();
  }
};

// Truncated Newton for convex functions (Nocedal & Wright 2006, algorithm 7.1), one iteration at a time: conjugate
// gradients, with the function's preconditioner or Jacobi's, to the residual min(forcing, sqrt(|g|/|g_0|)) |g|, or a
// direct solver where the function has one. The step is 1 where that is about the minimum along the direction, else
// that minimum (LineMinimum), else backtracking to Armijo's condition. Superlinear convergence, so gradients near the
// rounding limit are cheap.
//
// Functions with straight parts are approached along a path (Ridge): f plus a ridge is minimised roughly, then with
// a smaller ridge from there, and at last without. kPrecision means that the step with floor 1 (SetFloor), which cannot
// raise f but by rounding, lowered neither f nor the gradient.
class NewtonSolver {
 public:
  // `forcing` in (0, 1): 0.5 far from the optimum, where exact steps are a waste; 1e-4, say, close to it.
  explicit NewtonSolver(double tolerance = 0.0, double forcing = 0.5) : tolerance_(tolerance), forcing_(forcing) {}

  void set_tolerance(double tolerance) { tolerance_ = tolerance; }
  // The gradient's entries count divided by these, all > 0, for the tolerance; empty: by 1.
  void set_scale(Eigen::VectorXd scale) { scale_ = std::move(scale); }
  // Goes along the path of ridges only if `path`, which is true at first. Near an optimum the path is not needed.
  void set_path(bool path) { path_ = path; }
  // True while there still is a ridge.
  bool path_left() const { return ridge_.size() > 0; }
  // CANCELLED when stopped: nothing has begun then, or nothing has changed.
  absl::StatusOr<SolveState> Start(SecondOrderFunction& f, Eigen::VectorXd x0, const base::StopToken& stop = {});
  absl::StatusOr<SolveState> Step(SecondOrderFunction& f, const base::StopToken& stop);

  const Eigen::VectorXd& x() const { return x_; }
  double value() const { return value_; }
  const Eigen::VectorXd& gradient() const { return gradient_; }
  // Gain that the quadratic model of the last step promised. Near the optimum, the point before lay about that much
  // above the minimum. Infinite before the first step, and after one with a floor or ridge.
  double promised() const { return promised_; }
  int64_t evaluations() const { return evaluations_; }
  int64_t hessian_products() const { return products_; }
  // Passes over the rows: evaluations, products, diagonals of Hessians, and what the function says of the rest. Of
  // finished iterations.
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

  // Newton's direction at x_ with the ridge, for its gradient. `factor_point` becomes the point whose factor the next
  // step is to use, or empty.
  absl::Status Direction(SecondOrderFunction& f, double floor, const Eigen::VectorXd& gradient,
                         const base::StopToken& stop, Cost* cost, Eigen::VectorXd* direction,
                         Eigen::VectorXd* factor_point) const;
  absl::StatusOr<Search> LineSearch(SecondOrderFunction& f, const Eigen::VectorXd& gradient,
                                    const Eigen::VectorXd& direction, const base::StopToken& stop, Cost* cost,
                                    Point* found) const;
  // The gradient of f plus its ridge at a point.
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
  Eigen::VectorXd
      factor_point_;          // The point of the function's factor; empty: there is none, or it is no good any more.
  Eigen::VectorXd ridge_;     // Empty: none (any more).
  double ridge_share_ = 0.0;  // Share of the first ridge that ridge_ is.
  int64_t ridge_steps_ = 0;   // With this ridge.
  int64_t evaluations_ = 0;
  int64_t products_ = 0;
  double other_passes_ = 0.0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_NEWTON_SOLVER_H_
