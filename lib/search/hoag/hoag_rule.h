#ifndef LUTHIER_LIB_SEARCH_HOAG_HOAG_RULE_H_
#define LUTHIER_LIB_SEARCH_HOAG_HOAG_RULE_H_

#include <Eigen/Core>
#include <cstddef>
#include <deque>
#include <vector>

#include "lib/study/study_spec.h"

// One chain of hyperparameter optimization with approximate gradient (HOAG; Pedregosa 2016, "Hyperparameter
// optimization with approximate gradient", algorithm 1 and section 4.1): projected gradient steps on inexact gradients,
// with tolerances that shrink and steps that adapt. How they adapt is up to the chain's version. Option BACKTRACKING,
// in every version, makes of it projected gradient descent with Armijo's condition: a step without sufficient decrease
// is taken again, half as long.
//
//   symbol      meaning                                                              name in code
//   lambda_k    hyperparameters of evaluation k = 1, 2, ..., in coordinates of a box  point
//   g_k, p_k    outer loss there, and its gradient in those coordinates               value, gradient
//   epsilon_k   tolerance that evaluation k was made with                             tolerance
//   L_k         inverse step size                                                     inverse_step
namespace luthier::search {

// Versions of a chain's steps and tolerances. A study keeps the one it began with.
enum class HoagVersion {
  // The paper's: L_k is halved or grows by 1.05 by the test that follows from its equations 10 and 16; the step is
  // -p_k / L_k; tolerances are those of the sequence.
  kStepSize = 1,
  // Quasi-Newton steps from the last changes of the gradient (CurvaturePairs). Where the gradient does not grow along a
  // step, the next one is along -p_k and twice as long. A step is taken again, at most half as long, if the slope along
  // it has turned to more than 0.8 of what it was, or the value has risen by more than the tolerances leave open. L_k
  // is
  // the curvature along the last step. Tolerances are at most a tenth of |gradient mapping| over its largest so far.
  kCurvature = 2,
};

// Returns epsilon_k of option `sequence`, from `first` = epsilon_1. It is 0 for kExact, otherwise at least 1e-12.
double HoagTolerance(study::HoagSequence sequence, double first, int k);

// The last steps s of a descent, and the changes y of the gradient along them: L-BFGS' model of the inverse Hessian
// (Nocedal and Wright, Numerical Optimization, algorithm 7.4), restricted to the coordinates that may move. With one
// coordinate its step is the secant's.
class CurvaturePairs {
 public:
  static constexpr size_t kMost = 10;

  // Adds a pair, in place of the oldest if there are kMost. Returns false, and adds nothing, if the gradient does not
  // grow along s: s'y > 1e-6 |s| |y| does not hold.
  bool Add(const Eigen::VectorXd& s, const Eigen::VectorXd& y);
  void Clear() { pairs_.clear(); }
  bool empty() const { return pairs_.empty(); }

  // Returns -H p with the model H of the inverse Hessian over the coordinates i with free[i]; the others' entries are
  // 0. Pairs without curvature there are left out; if none is left, H is `scale` times the identity. O(kMost n).
  Eigen::VectorXd Direction(const Eigen::VectorXd& p, const std::vector<bool>& free, double scale) const;

 private:
  struct Pair {
    Eigen::VectorXd s, y;
  };
  std::deque<Pair> pairs_;  // The oldest first.
};

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
  HoagChain(const study::HoagOptions& options, Eigen::VectorXd start, Eigen::VectorXd lower, Eigen::VectorXd upper,
            HoagVersion version = HoagVersion::kCurvature);

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
  bool by_curvature() const;
  // Adapts the step to the result of point_; returns true if the step is to be taken again.
  bool AdaptStepSize(const HoagResult& result);
  bool AdaptCurvature(const HoagResult& result);
  // Moves to the next point, by at most `longest` in every coordinate from the last accepted one.
  void Step(double longest);
  // Takes the last step again, at most half as long.
  void Reject();
  // Returns the step that is wanted from accepted_, before any limit.
  Eigen::VectorXd Wanted() const;
  Eigen::VectorXd Project(const Eigen::VectorXd& point) const;

  study::HoagOptions options_;
  HoagVersion version_;
  Eigen::VectorXd lower_, upper_;
  Eigen::VectorXd point_;
  int k_ = 1;
  double shrink_ = 1.0;        // Halved with each rejection: a factor of the tolerances.
  double inverse_step_ = 0.0;  // L
  CurvaturePairs pairs_;
  HoagResult last_;  // Answer of the last accepted evaluation, at accepted_.
  Eigen::VectorXd accepted_;
  bool any_ = false;  // True if an evaluation was accepted.
  bool ended_ = false;
  double best_;
  double mapping_ = 0.0;
  double first_mapping_ = 0.0;
  double largest_mapping_ = 0.0;
  double first_gain_ = 0.0;  // |p_1|: gain that the first step, of length 1, promised.
  int rejected_ = 0;
  int rejected_in_a_row_ = 0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HOAG_HOAG_RULE_H_
