#ifndef LUTHIER_LIB_BILEVEL_INNER_PROBLEM_H_
#define LUTHIER_LIB_BILEVEL_INNER_PROBLEM_H_

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/linear/conjugate_gradient.h"

// A bilevel problem: minimise over lambda the outer loss E(lambda) = g(X(lambda)), where X(lambda) minimises the inner
// objective h(x, lambda) over x (Pedregosa 2016, "Hyperparameter optimization with approximate gradient").
//
//   symbol   meaning                                            shape   name in code
//   x        model weights                                      p       x
//   lambda   hyperparameters in unconstrained coordinates       s       (fixed inside an InnerProblem)
//   H        Hessian of h in x                                  p x p   HessianVector
//   D        cross derivative d^2 h / dx dlambda                p x s   CrossTransposeVector
//   q        adjoint: H q = grad g                              p       adjoint
//   mu       strong convexity of h in x: H >= mu I                      InnerConstants::mu
namespace luthier::bilevel {

// Numbers for error bounds. They must hold for all x when `certified`; otherwise they are estimates.
struct InnerConstants {
  double mu = 0.0;                 // > 0
  double hessian_lipschitz = 0.0;  // L_H: |H(x) - H(y)| <= L_H |x - y|
  double cross_lipschitz = 0.0;    // L_D: |D(x) - D(y)| <= L_D |x - y|
  bool certified = false;
};

// h at one fixed lambda. HessianVector, HessianDiagonal, CrossTransposeVector and CrossNorm refer to the point of the
// last SetPoint. Long work polls `stop`, and returns CANCELLED when stopped. Not thread-safe.
class InnerProblem {
 public:
  virtual ~InnerProblem() = default;
  virtual Eigen::Index dim() const = 0;
  virtual Eigen::Index hyper_dim() const = 0;
  // Returns h(x), and sets `gradient` to grad_x h unless it is null.
  virtual absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                                       const base::StopToken& stop) = 0;
  // Returns grad_x h as exactly as rounding allows, for error bounds. Returns CANCELLED when stopped.
  virtual absl::StatusOr<Eigen::VectorXd> ExactGradient(const Eigen::VectorXd& x, const base::StopToken& stop);
  virtual absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) = 0;
  virtual absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) = 0;
  // Returns a diagonal for the preconditioner, entries > 0; empty if it is not cheap.
  virtual absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) = 0;
  // Makes Precondition(r) = M^-1 r available, with a matrix M near the Hessian. The first call makes M for the point of
  // the last SetPoint; later calls keep it. Returns false if M is not affordable.
  virtual absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& /*stop*/) { return false; }
  virtual Eigen::VectorXd Precondition(const Eigen::VectorXd& r) { return r; }
  // Returns D' q, s entries.
  virtual Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) = 0;
  // Returns an upper bound of the spectral norm of D.
  virtual double CrossNorm() = 0;
  virtual absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) = 0;
};

// g(x, lambda) at one fixed lambda. Most depend on lambda through x alone.
class OuterLoss {
 public:
  virtual ~OuterLoss() = default;
  // Returns g(x), and sets `gradient` to grad g (p) unless it is null. Returns CANCELLED when stopped.
  virtual absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                                       const base::StopToken& stop) = 0;
  // Returns L_g: |grad g(x) - grad g(y)| <= L_g |x - y|.
  virtual double GradientLipschitz() = 0;
  // Returns the derivatives of g by lambda at fixed x, s entries; empty if all are 0. Returns CANCELLED when stopped.
  virtual absl::StatusOr<Eigen::VectorXd> DirectGradient(const Eigen::VectorXd& /*x*/,
                                                         const base::StopToken& /*stop*/) {
    return Eigen::VectorXd();
  }
  // Returns a bound on |DirectGradient(x) - DirectGradient(y)| over all y with |x - y| <= distance.
  virtual double DirectError(const Eigen::VectorXd& /*x*/, double /*distance*/) { return 0.0; }
};

// The solution of a quadratic inner problem, grad h(x) = H x - b.
struct LinearSolution {
  Eigen::VectorXd weights;
  linear::CgOutcome outcome = linear::CgOutcome::kConverged;
  double relative_gradient = 0.0;  // |H x - b| / |b|
  int products = 0;                // Products with H.
};

// Solves H x = b for an `inner` whose Hessian is the same everywhere, to |H x - b| <= tolerance |b|, by conjugate
// gradients with the preconditioner of `inner` or its diagonal. max_iterations >= 1 limits the products. A
// preconditioner is here a factor of H, with which only a few refinements help. Returns CANCELLED when stopped.
absl::StatusOr<LinearSolution> SolveQuadratic(InnerProblem& inner, const Eigen::VectorXd& b, double tolerance,
                                              int max_iterations, const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_INNER_PROBLEM_H_
