#ifndef LUTHIER_LIB_BILEVEL_INNER_PROBLEM_H_
#define LUTHIER_LIB_BILEVEL_INNER_PROBLEM_H_

#include <Eigen/Core>
#include <atomic>

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
// last SetPoint. Not thread-safe.
class InnerProblem {
 public:
  virtual ~InnerProblem() = default;
  // Long work looks at `stop` (may be null) from now on; once that is set, what comes back is of no use.
  void StopAt(const std::atomic<bool>* stop) { stop_ = stop; }
  virtual Eigen::Index dim() const = 0;
  virtual Eigen::Index hyper_dim() const = 0;
  // h(x), and grad_x h unless null.
  virtual double Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient) = 0;
  virtual void SetPoint(const Eigen::VectorXd& x) = 0;
  virtual Eigen::VectorXd HessianVector(const Eigen::VectorXd& v) = 0;
  // Entries > 0, for the preconditioner; empty when it is not cheap.
  virtual Eigen::VectorXd HessianDiagonal() = 0;
  // Whether there is Precondition(r) = M^-1 r with a matrix M near the Hessian: of the point of the last SetPoint at
  // the first call, which makes it, and the same from then on. False when it is not affordable or the flag was seen.
  virtual bool PreparePreconditioner() { return false; }
  virtual Eigen::VectorXd Precondition(const Eigen::VectorXd& r) { return r; }
  // D' q: s entries.
  virtual Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) = 0;
  // An upper bound of the spectral norm of D.
  virtual double CrossNorm() = 0;
  virtual InnerConstants Constants() = 0;

 protected:
  const std::atomic<bool>* stop() const { return stop_; }

 private:
  const std::atomic<bool>* stop_ = nullptr;
};

// g. It depends on lambda through x alone.
class OuterLoss {
 public:
  virtual ~OuterLoss() = default;
  void StopAt(const std::atomic<bool>* stop) { stop_ = stop; }  // As InnerProblem has it.
  // g(x), and grad g (p) unless null.
  virtual double Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient) = 0;
  // L_g: |grad g(x) - grad g(y)| <= L_g |x - y|.
  virtual double GradientLipschitz() = 0;

 protected:
  const std::atomic<bool>* stop() const { return stop_; }

 private:
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_INNER_PROBLEM_H_
