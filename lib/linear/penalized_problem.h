#ifndef LUTHIER_LIB_LINEAR_PENALIZED_PROBLEM_H_
#define LUTHIER_LIB_LINEAR_PENALIZED_PROBLEM_H_

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/linear/newton_solver.h"

namespace luthier::linear {

enum class LinearSolver { kLbfgs, kNewtonCg, kNewtonCholesky, kDual, kSvrg };

// Estimates of the passes over the entries that solvers need from w = 0. Infinite: the solver is not for the problem,
// or is never worth its price.
struct SolverCosts {
  double lbfgs = INFINITY, newton_cg = INFINITY, newton_cholesky = INFINITY, dual = INFINITY;
  double steps = 0.0;  // Steps of Newton's method.

  double Of(LinearSolver solver) const;
};

class LinearProblem;

// A training problem as trainers see it: a convex function h(w) = losses + 1/2 sum_j l2_j w_j^2 over
// dim() weights, of which the first penalized() have a penalty. Immutable; any thread. Long computations poll `stop`,
// and return CANCELLED when stopped.
class PenalizedProblem {
 public:
  virtual ~PenalizedProblem() = default;
  virtual Eigen::Index dim() const = 0;
  virtual Eigen::Index penalized() const = 0;
  virtual int64_t rows() const = 0;
  // Returns the least penalty.
  virtual double l2() const = 0;
  virtual bool one_penalty() const = 0;
  // Returns the root mean square of each weight's column, dim() entries > 0; 1 for columns of zeros.
  virtual const Eigen::VectorXd& column_scale() const = 0;
  virtual double largest_row_norm() const = 0;
  // Returns l2_j w_j for each penalised weight.
  virtual Eigen::VectorXd Penalize(const Eigen::VectorXd& w) const = 0;
  // Returns h(w), and its gradient unless null.
  virtual absl::StatusOr<double> Evaluate(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                                          const base::StopToken& stop) const = 0;
  // Returns a bound on h(w) - min h, by duality; infinite if there is none.
  virtual absl::StatusOr<double> DualityGap(const Eigen::VectorXd& w, const base::StopToken& stop) const = 0;
  // Returns the diagonal of a matrix that bounds the Hessian from above everywhere, and that matrix times v.
  virtual Eigen::VectorXd BoundDiagonal() const = 0;
  virtual absl::StatusOr<Eigen::VectorXd> BoundVector(const Eigen::VectorXd& v, const base::StopToken& stop) const = 0;
  // Returns h with its second derivatives, by Cholesky's factor if `direct`. This must outlive the result.
  virtual std::unique_ptr<SecondOrderFunction> MakeFunction(bool direct) const = 0;
  virtual SolverCosts Costs() const = 0;
  // Returns, for people, the numbers that decide which solver is best.
  virtual std::string Describe() const = 0;
  // Returns this, if it is a problem of two classes; only they have the dual and the stochastic solver.
  virtual const LinearProblem* two_classes() const { return nullptr; }
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_PENALIZED_PROBLEM_H_
