#ifndef LUTHIER_LIB_LINEAR_LOGISTIC_FUNCTION_H_
#define LUTHIER_LIB_LINEAR_LOGISTIC_FUNCTION_H_

#include <Eigen/Core>
#include <cmath>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/linear/logistic.h"
#include "lib/linear/logistic_preconditioner.h"
#include "lib/linear/newton_solver.h"

namespace luthier::linear {

// LogisticProblem as a SecondOrderFunction. With `direct`, Newton systems are solved by Cholesky's factor, else by
// conjugate gradients with LogisticPreconditioner. `problem` must outlive it.
class LogisticFunction final : public SecondOrderFunction {
 public:
  explicit LogisticFunction(const LogisticProblem* problem, bool direct = false) : problem_(problem), direct_(direct) {}
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override {
    return problem_->Value(x, gradient, stop);
  }
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  double point_passes() const override { return 1.0; }
  double factor_passes() const override;
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override { return factor_->Solve(r); }
  bool direct() const override { return direct_; }
  bool keeps_factor() const override { return direct_; }
  bool HasFactorOf(const Eigen::VectorXd& x) const override {
    return factor_point_.size() == x.size() && factor_point_ == x;
  }
  absl::StatusOr<bool> MakeFactor(const base::StopToken& stop) override;
  void SetFloor(double share) override { floor_ = share; }
  bool has_floor() const override { return true; }
  absl::StatusOr<double> LineMinimum(const Eigen::VectorXd& x, const Eigen::VectorXd& d, const base::StopToken& stop,
                                     double* passes) override;
  absl::StatusOr<Eigen::VectorXd> SolveHessian(const Eigen::VectorXd& b, const base::StopToken& stop) override;

 private:
  const LogisticProblem* const problem_;
  const bool direct_;
  double floor_ = 0.0;
  Eigen::VectorXd x_;  // Point of the last SetPoint.
  LogisticData::Curvature curvature_;
  // A little curvature for intercepts at x_ along which the losses have next to none, which bounds the steps: dim() -
  // penalized() entries.
  Eigen::VectorXd ridge_;
  std::optional<LogisticPreconditioner> factor_;
  Eigen::VectorXd factor_point_;  // Point of factor_ if that is of the whole Hessian; else empty.
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LOGISTIC_FUNCTION_H_
