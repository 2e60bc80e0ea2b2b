#ifndef LUTHIER_LIB_BILEVEL_LINEAR_INNER_H_
#define LUTHIER_LIB_BILEVEL_LINEAR_INNER_H_

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/linear/problem.h"

namespace luthier::bilevel {

// A linear classifier of two classes with one hyperparameter lambda = ln l2, or one for each group of columns
// (column_penalties.h):
//   h(w, lambda) = sum loss(t_i(w)) + (e^lambda / 2) |w|^2,  D = e^lambda w (0 for a free bias).
// For the logistic loss with a penalty on everything mu = e^lambda and all constants are true bounds. With a free bias
// there is no mu, and the slopes of hinges have corners; then the constants are of no use, and certified is false. At a
// corner the Hessian is an element of the generalised one. `problem` must outlive this; its l2 must be positive.
class LinearInner final : public InnerProblem {
 public:
  explicit LinearInner(const linear::LinearProblem* problem, ColumnPenalties groups = {});

  Eigen::Index dim() const override { return problem_->dim(); }
  Eigen::Index hyper_dim() const override { return groups_.count; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override {
    return function_.Value(x, gradient, stop);
  }
  // Costs nothing at the point for which Value was called last.
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override {
    return function_.HessianVector(v, stop);
  }
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  // Makes Cholesky's factor of the Hessian if it costs at most kMostFactorPasses, else that of a sample's Hessian.
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override { return function_.Precondition(r); }
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  const linear::LinearProblem* const problem_;
  const ColumnPenalties groups_;
  linear::LinearFunction function_;
  bool prepared_ = false;
  Eigen::VectorXd x_;
};

// Mean loss over held-out rows, at least one. `data` must outlive this.
class LinearOuter final : public OuterLoss {
 public:
  LinearOuter(const linear::LinearData* data, const linear::MarginLoss& loss) : problem_(data, loss, 0.0) {}
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  double GradientLipschitz() override;

 private:
  const linear::LinearProblem problem_;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_LINEAR_INNER_H_
