#ifndef LUTHIER_LIB_SEARCH_HOAG_HOAG_RULE_H_
#define LUTHIER_LIB_SEARCH_HOAG_HOAG_RULE_H_

#include <Eigen/Core>

#include "lib/study/study_spec.h"

// One chain of hyperparameter optimization with approximate gradient (HOAG; Pedregosa 2016, "Hyperparameter
// optimization with approximate gradient", algorithm 1 and section 4.1): projected gradient steps on inexact gradients,
// with tolerances that shrink and a step size that adapts. Option BACKTRACKING makes of it projected gradient descent
// with Armijo's condition: a step without sufficient decrease is taken again, half as long.
//
//   symbol      meaning                                                              name in code
//   lambda_k    hyperparameters of evaluation k = 1, 2, ..., in coordinates of a box  point
//   g_k, p_k    outer loss there, and its gradient in those coordinates               value, gradient
//   epsilon_k   tolerance that evaluation k was made with                             tolerance
//   L_k         inverse step size                                                     inverse_step
namespace luthier::search {

// Returns epsilon_k of option `sequence`, from `first` = epsilon_1. It is 0 for kExact, otherwise at least 1e-12.
double HoagTolerance(study::HoagSequence sequence, double first, int k);

// The result of one evaluation.
struct HoagResult {
  double value = 0.0;
  Eigen::VectorXd gradient;
  double tolerance = 0.0;
  // |grad_x g| at the weights, a local estimate of the Lipschitz constant of the outer loss in the weights; 0: unknown.
  double outer_gradient_norm = 0.0;
};

// A chain after some evaluations. Usage: for k = 1, 2, ... evaluate at point() with tolerance(), then Tell or Fail.
class HoagChain {
 public:
  // The box is lower <= lambda <= upper; `start` is projected on it.
  HoagChain(const study::HoagOptions& options, Eigen::VectorXd start, Eigen::VectorXd lower, Eigen::VectorXd upper);

  // Number of the next evaluation, from 1.
  int k() const { return k_; }
  const Eigen::VectorXd& point() const { return point_; }
  double tolerance() const;
  // Returns true once nothing more is to be gained here: the gradient mapping is small, or the first evaluation failed.
  bool ended() const { return ended_; }
  // Best value told so far; infinite before.
  double best() const { return best_; }
  double inverse_step() const { return inverse_step_; }
  // Largest entry, in absolute value, of lambda - P(lambda - p): the gradient's part that does not lead out of the box.
  double mapping() const { return mapping_; }
  int rejected() const { return rejected_; }

  // Takes the result of evaluation k(), and moves on to the next point.
  void Tell(const HoagResult& result);
  // Notes that evaluation k() has no result, because its trial failed or had no gradient. Halves the step before it, or
  // ends the chain if there was none.
  void Fail();

 private:
  // Moves to the next point, a step from the last accepted one.
  void Step();
  // Takes the last step again, half as long.
  void Reject();
  Eigen::VectorXd Project(const Eigen::VectorXd& point) const;

  study::HoagOptions options_;
  Eigen::VectorXd lower_, upper_;
  Eigen::VectorXd point_;
  int k_ = 1;
  double shrink_ = 1.0;        // Halved with each rejection: a factor of the tolerances.
  double inverse_step_ = 0.0;  // L
  HoagResult last_;            // Answer of the last accepted evaluation, at accepted_.
  Eigen::VectorXd accepted_;
  bool any_ = false;  // True if an evaluation was accepted.
  bool ended_ = false;
  double best_;
  double mapping_ = 0.0;
  double first_mapping_ = 0.0;
  int rejected_ = 0;
  int rejected_in_a_row_ = 0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HOAG_HOAG_RULE_H_
