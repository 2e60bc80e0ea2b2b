#include "lib/bilevel/chain_inner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::VectorXd;

ChainInner::ChainInner(const crf::ChainData* data, std::vector<int32_t> row_group, int32_t transitions_group,
                       std::vector<double> l2, const crf::Kernels& kernels)
    : data_(data),
      row_group_(std::move(row_group)),
      transitions_group_(transitions_group),
      l2_(std::move(l2)),
      loss_(data, 1, kernels),
      penalty_(dim()) {
  const int stride = data->shape().stride();
  for (Eigen::Index j = 0; j < penalty_.size(); ++j) penalty_[j] = l2_[static_cast<size_t>(GroupOf(j / stride))];
  LUTHIER_CHECK(penalty_.minCoeff() > 0.0);
}

absl::StatusOr<double> ChainInner::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const double loss, loss_.Value(x, gradient, stop));
  if (gradient != nullptr) *gradient += penalty_.cwiseProduct(x);
  return loss + 0.5 * penalty_.dot(x.cwiseAbs2());
}

absl::Status ChainInner::SetPoint(const VectorXd& x, const base::StopToken& stop) {
  x_ = x;
  return stop.Poll();
}

absl::StatusOr<VectorXd> ChainInner::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd product,
                           loss_.SubsetHessianVector(nullptr, static_cast<int64_t>(data_->sequences()), x_, v, stop));
  product += penalty_.cwiseProduct(v);
  return product;
}

absl::StatusOr<VectorXd> ChainInner::HessianDiagonal(const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd diagonal, loss_.TokenVariances(x_, stop));
  diagonal += penalty_;
  return diagonal;
}

VectorXd ChainInner::Sums(const VectorXd& terms) const {
  VectorXd sums = VectorXd::Zero(hyper_dim());
  const int stride = data_->shape().stride();
  for (Eigen::Index begin = 0; begin < terms.size(); begin += stride) {
    sums[GroupOf(begin / stride)] += terms.segment(begin, stride).sum();
  }
  return sums;
}

VectorXd ChainInner::CrossTransposeVector(const VectorXd& q) {
  return Sums(penalty_.cwiseProduct(x_).cwiseProduct(q));
}

double ChainInner::CrossNorm() {
  // The columns of D are disjoint, so the norm is that of the longest.
  return std::sqrt(Sums(penalty_.cwiseProduct(x_).cwiseAbs2()).maxCoeff());
}

absl::StatusOr<InnerConstants> ChainInner::Constants(const base::StopToken& /*stop*/) {
  InnerConstants constants;
  constants.mu = penalty_.minCoeff();
  constants.hessian_lipschitz = INFINITY;
  constants.cross_lipschitz = penalty_.maxCoeff();
  return constants;
}

ChainOuter::ChainOuter(const crf::ChainData* data, const crf::Kernels& kernels) : loss_(data, 1, kernels) {
  for (int64_t i = 0; i < data->sequences(); ++i) {
    const crf::Sequence x = data->At(i);
    if (std::any_of(x.label, x.label + x.tokens, [&](int32_t k) { return k >= data->labels(); })) continue;
    rows_.push_back(static_cast<int32_t>(i));
    tokens_ += x.tokens;
  }
}

absl::StatusOr<double> ChainOuter::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  VectorXd sum = VectorXd::Zero(x.size());
  LUTHIER_ASSIGN_OR_RETURN(const double loss,
                           loss_.AddSubset(rows_.data(), static_cast<int64_t>(rows_.size()), x, &sum, stop));
  const double tokens = static_cast<double>(std::max<int64_t>(tokens_, 1));
  if (gradient != nullptr) *gradient = sum / tokens;
  return loss / tokens;
}

double ChainOuter::GradientLipschitz() {
  return INFINITY;
}

}  // namespace luthier::bilevel
