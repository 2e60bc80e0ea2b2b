#include "lib/linear/logistic_function.h"

#include <algorithm>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/linear/line_minimum.h"

namespace luthier::linear {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kLeastBend = 1e-14;  // Least curvature of an intercept, as a share of the largest possible one.
// Cost of a sum over the scores of all rows, in passes, where rows have a single entry.
constexpr double kScorePass = 0.5;

}  // namespace

absl::Status LogisticFunction::SetPoint(const VectorXd& x, const base::StopToken& stop) {
  const LogisticData& data = problem_->data();
  if (floor_ > 0.0) {
    curvature_ = data.LargestCurvature();
  } else {
    LUTHIER_ASSIGN_OR_RETURN(curvature_, data.CurvatureAt(x, stop));
  }
  x_ = x;
  const Index free = problem_->dim() - problem_->penalized();
  ridge_ = VectorXd::Zero(free);
  if (free == 0) return absl::OkStatus();
  const auto& p = curvature_.probability;
  const VectorXd bend = curvature_.factor * (p.array() * (1.0 - p.array())).rowwise().sum().matrix().tail(free);
  const double usual = kLeastBend * 0.25 * static_cast<double>(p.cols());
  ridge_ = (usual - bend.array()).max(0.0).matrix();
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> LogisticFunction::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd out, problem_->HessianVector(curvature_, v, stop));
  out.tail(ridge_.size()) += ridge_.cwiseProduct(v.tail(ridge_.size()));
  return out;
}

absl::StatusOr<VectorXd> LogisticFunction::HessianDiagonal(const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd out, problem_->HessianDiagonal(curvature_, stop));
  out.tail(ridge_.size()) += ridge_;
  return out;
}

double LogisticFunction::factor_passes() const {
  const double passes = direct_ ? LogisticPreconditioner::ExactPasses(problem_->data())
                                : LogisticPreconditioner::Passes(problem_->data());
  return std::isfinite(passes) ? passes : 0.0;
}

absl::StatusOr<bool> LogisticFunction::MakeFactor(const base::StopToken& stop) {
  factor_point_.resize(0);
  VectorXd added = problem_->PenaltyOfWeights();
  added.tail(ridge_.size()) += ridge_;
  LUTHIER_ASSIGN_OR_RETURN(factor_, LogisticPreconditioner::MakeExact(problem_->data(), curvature_, added, stop));
  if (factor_.has_value() && floor_ == 0.0) factor_point_ = x_;
  return factor_.has_value();
}

absl::StatusOr<bool> LogisticFunction::PreparePreconditioner(const base::StopToken& stop) {
  if (direct_) return MakeFactor(stop);
  factor_point_.resize(0);
  VectorXd added = problem_->PenaltyOfWeights();
  added.tail(ridge_.size()) += ridge_;
  LUTHIER_ASSIGN_OR_RETURN(factor_, LogisticPreconditioner::Make(problem_->data(), curvature_, added, stop));
  return factor_.has_value();
}

absl::StatusOr<VectorXd> LogisticFunction::SolveHessian(const VectorXd& b, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const bool factored, MakeFactor(stop));
  return factored ? factor_->Solve(b) : VectorXd();
}

absl::StatusOr<double> LogisticFunction::LineMinimum(const VectorXd& x, const VectorXd& d, const base::StopToken& stop,
                                                     double* passes) {
  const LogisticData& data = problem_->data();
  LUTHIER_ASSIGN_OR_RETURN(const MatrixXd scores, data.AllScores(x, stop));
  LUTHIER_ASSIGN_OR_RETURN(const MatrixXd along, data.AllScores(d, stop));
  *passes = 1.0;
  const double row_sums = kScorePass / std::max(1.0, data.mean_entries());
  const VectorXd penalty = problem_->Penalize(d);
  const Index p = problem_->penalized();
  const double first = penalty.dot(x.head(p)), second = penalty.dot(d.head(p));
  return FindLineMinimum(
      [&](double step, double* curvature) {
        *passes += row_sums;
        const double slope = data.SlopeAlong(scores, along, step, curvature);
        *curvature += second;
        return slope + first + step * second;
      },
      stop);
}

}  // namespace luthier::linear
