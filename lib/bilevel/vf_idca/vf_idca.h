#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_VF_IDCA_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_VF_IDCA_H_

#include <Eigen/Core>
#include <functional>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// The value-function difference-of-convex algorithm (VF-iDCA: Gao, Ye, Yin, Zeng & Zhang 2022): chooses the strengths
// of all penalties of a model at once, on held-out rows.
//
//   min L(x) over x, r >= 0    such that x solves    v(r) = min l(x) s.t. P_i(x) <= r_i
//
// L and l are the losses of the validation and the training rows. v is convex with -gamma in its subdifferential,
// gamma >= 0 the multipliers of the constraints. Each step linearises v at r and solves
//
//   min  L(x) + rho/2 (|x - x_k|^2 + |r - r_k|^2) + alpha max(0, V_k, w (P_i(x) - r_i)),
//   V_k = l(x) - f + <gamma, r - r_k>,   f <= v(r_k)
//
// The gamma at the final r are the strengths of the equivalent penalised problem min l(x) + sum_i gamma_i P_i(x).
namespace luthier::bilevel {

struct VfIdcaOptions {
  Eigen::VectorXd start;      // r_0 > 0: one for each penalty.
  double least_bound = 1e-8;  // r >= this: near 0 the multipliers have no limit.
  double rho = 1e-3;
  double alpha_step = 5.0;  // alpha grows by this, from 1 (delta in the paper).
  // alpha grows where step * alpha <= alpha_share min(1, alpha * violation) (c in the paper).
  double alpha_share = 0.5;
  double violation_weight = 1.0;  // w
  bool relative_step = true;      // The step is |z+ - z| / sqrt(1 + |z|^2), else |z+ - z| / |z|.
  double tolerance = 0.1;         // Ends where both the step and the violation are less.
  int max_steps = 100;
  int patience = 0;         // Ends after this many steps without a better model (VfIdcaResult). 0: never.
  double least_gain = 0.0;  // For `patience` a model counts as better if its loss is less by this share.
  double gap = 3e-7;        // Accuracy of each subproblem, relative.
  // Solves the problems of a step that follows one of length e only to max(gap, min(1e-3, e^2 / 10)). The cut stays
  // below the value function, so that this can only slow the algorithm; the last step is made at `gap`.
  bool inexact = false;
};

// The lower problem at one r.
struct VfLower {
  Eigen::VectorXd x;      // P_i(x) <= r_i
  double value = 0.0;     // l(x)
  double gap = 0.0;       // >= value - v(r)
  Eigen::VectorXd gamma;  // v(r') >= value - gap - <gamma, r' - r> for all r' >= 0.
};

// The problem of one step.
struct VfUpper {
  Eigen::VectorXd x, r;
  double value = 0.0;
  double gap = 0.0;  // Proven, relative to 1 + |value|.
};

// A model, its penalties and its rows, as the algorithm sees them. Not thread-safe, because solvers start where they
// ended.
class VfIdcaProblem {
 public:
  virtual ~VfIdcaProblem() = default;
  virtual Eigen::Index variables() const = 0;  // Length of x.
  // Returns all P_i(x).
  virtual Eigen::VectorXd Penalties(const Eigen::VectorXd& x) const = 0;
  virtual double TrainLoss(const Eigen::VectorXd& x) const = 0;
  virtual double ValidationLoss(const Eigen::VectorXd& x) const = 0;
  // Starts from `x` and `gamma`, which may be any; `gamma` may be empty. `gap` is the relative accuracy. Returns
  // CANCELLED when stopped.
  virtual absl::StatusOr<VfLower> SolveLower(const Eigen::VectorXd& r, const Eigen::VectorXd& x,
                                             const Eigen::VectorXd& gamma, double gap, const base::StopToken& stop) = 0;
  // Solves the step from (x, r), at which `lower` solves the lower problem, to an accuracy of `gap`. Returns CANCELLED
  // when stopped.
  virtual absl::StatusOr<VfUpper> SolveUpper(const Eigen::VectorXd& x, const Eigen::VectorXd& r, const VfLower& lower,
                                             double alpha, double gap, const base::StopToken& stop) = 0;
  // Returns the penalised model of the training rows at strengths lower.gamma; empty if it was not found. Returns
  // CANCELLED when stopped.
  virtual absl::StatusOr<Eigen::VectorXd> Refit(const VfLower& lower, const base::StopToken& stop) = 0;
};

// The state after one step.
struct VfIdcaStep {
  int number = 0;  // From 1.
  double step = 0.0, violation = 0.0;
  double alpha = 0.0;                              // The weight that this step had.
  double upper_value = 0.0;                        // The step's objective at its solution.
  double lower_gap = 0.0, upper_gap = 0.0;         // Proven gaps of the problems it solved, relative to 1 + |value|.
  double validation_loss = 0.0, train_loss = 0.0;  // L and l of the iterate, which has seen the validation rows.
  double refit_validation_loss = 0.0;              // L of the lower problem's solution at r.
  Eigen::VectorXd r;                               // The new bounds.
  Eigen::VectorXd gamma;                           // The multipliers there.
};

struct VfIdcaResult {
  bool converged = false;  // False if it ended for another reason.
  bool patient = true;     // False if it ended by `patience`.
  int steps = 0;
  // True if all multipliers vanish: no penalty binds, and with more columns than rows the model interpolates.
  bool degenerate = false;
  Eigen::VectorXd x;      // The iterate: a model of training and validation rows.
  Eigen::VectorXd r;      // The constraints' bounds.
  Eigen::VectorXd gamma;  // The multipliers there: strengths of the penalties beside l.
  Eigen::VectorXd refit;  // The lower problem's solution at r: a model of the training rows alone.
  double refit_gap = 0.0;
  // The penalised model of the training rows with the least L, over the gamma of all steps and of the start (step 0).
  // It is kept because steps that lower the iterate's L need not lower L of this model. Multipliers at which no penalty
  // binds are left out: many models are then equally good, and the algorithm would take the one that fits the
  // validation rows. best_step is -1 if there is no such model.
  int best_step = -1;
  double best_loss = 0.0;
  Eigen::VectorXd best_refit;
  Eigen::VectorXd best_gamma;
  Eigen::VectorXd best_r;
  double worst_gap = 0.0;  // The largest gap of all subproblems.
};

// Returns gap / (1 + |value|), the measure of all gaps here.
double RelativeGap(double gap, double value);

// Runs the algorithm from x = 0. Calls `report`, unless it is empty, after each step, and ends if it returns false.
// Returns CANCELLED when stopped.
absl::StatusOr<VfIdcaResult> RunVfIdca(VfIdcaProblem& problem, const VfIdcaOptions& options,
                                       const std::function<bool(const VfIdcaStep&)>& report,
                                       const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_VF_IDCA_H_
