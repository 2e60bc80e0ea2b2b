#ifndef LUTHIER_LIB_BILEVEL_LOGISTIC_INNER_H_
#define LUTHIER_LIB_BILEVEL_LOGISTIC_INNER_H_

#include <Eigen/Core>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/linear/logistic.h"
#include "lib/linear/logistic_preconditioner.h"

namespace luthier::bilevel {

// L2 logistic regression, binary or multinomial, with one hyperparameter lambda = ln l2, or one for each group of
// columns (column_penalties.h):
//   h(w, lambda) = sum psi_i(w) + (e^lambda / 2) |W|^2,  D = e^lambda W (0 for intercepts).
// Without intercept mu = e^lambda and all constants are true bounds. Intercepts are not penalised, so with them mu is
// estimated: the smaller of e^lambda and a Rayleigh quotient after inverse iteration at the current point, not
// certified. `problem` must outlive this; its l2 must be positive.
class LogisticInner final : public InnerProblem {
 public:
  explicit LogisticInner(const linear::LogisticProblem* problem, ColumnPenalties groups = {});

  Eigen::Index dim() const override { return problem_->dim(); }
  Eigen::Index hyper_dim() const override { return groups_.count; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override {
    return problem_->Value(x, gradient, stop);
  }
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override {
    return problem_->HessianVector(curvature_, v, stop);
  }
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  // Makes Cholesky's factor of a sample's Hessian (linear::LogisticPreconditioner), if it is affordable.
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override { return preconditioner_->Solve(r); }
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  absl::StatusOr<double> SmallestCurvature(const base::StopToken& stop);

  const linear::LogisticProblem* const problem_;
  const ColumnPenalties groups_;
  Eigen::VectorXd x_;
  linear::LogisticData::Curvature curvature_;
  bool prepared_ = false;
  std::optional<linear::LogisticPreconditioner> preconditioner_;
};

// Mean logistic loss over held-out rows. `data` must outlive this.
class LogisticOuter final : public OuterLoss {
 public:
  explicit LogisticOuter(const linear::LogisticData* data) : data_(data) {}
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  double GradientLipschitz() override;

 private:
  const linear::LogisticData* const data_;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_LOGISTIC_INNER_H_
