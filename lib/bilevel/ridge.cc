#include "lib/bilevel/ridge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

absl::StatusOr<LeastSquaresData> LeastSquaresData::Create(const data::Dataset& dataset,
                                                          const std::vector<int32_t>& rows,
                                                          const data::Standardization& scaling, double offset,
                                                          const base::StopToken& stop) {
  LeastSquaresData out;
  const auto n = static_cast<Index>(rows.size());
  const Index p = dataset.x.cols;
  out.x_ = &dataset.x;
  LUTHIER_RETURN_IF_ERROR(
      base::CopyInPieces(reinterpret_cast<const char*>(rows.data()), rows.size(), stop, &out.rows_));
  base::Pace pace(stop);
  out.target_.resize(n);
  for (Index i = 0; i < n; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    const auto row = static_cast<size_t>(rows[static_cast<size_t>(i)]);
    out.target_[i] = dataset.target[row] - offset;
    out.nonzeros_ += dataset.x.row_start[row + 1] - dataset.x.row_start[row];
  }
  out.mean_ = scaling.identity() ? VectorXd::Zero(p) : scaling.mean;
  out.scale_ = scaling.deviation.size() == 0 ? VectorXd::Ones(p) : VectorXd(scaling.deviation.cwiseInverse());
  for (Index j = 0; j < p && !scaling.constant.empty(); ++j) {
    if (scaling.constant[static_cast<size_t>(j)]) out.scale_[j] = 0.0;
  }
  // Sums squared differences from the mean, because sums of squares would cancel.
  out.column_squares_ = VectorXd::Zero(p);
  VectorXd stored = VectorXd::Zero(p);
  for (Index i = 0; i < n; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(4 * out.row(i).count + 1));
    out.ForEach(i, [&](Index j, double value) {
      const double z = (value - out.mean_[j]) * out.scale_[j];
      out.column_squares_[j] += z * z;
      stored[j] += 1.0;
    });
  }
  out.column_squares_.array() +=
      (static_cast<double>(n) - stored.array()) * (out.mean_.array() * out.scale_.array()).square();
  return out;
}

absl::StatusOr<VectorXd> LeastSquaresData::Multiply(const VectorXd& v, const base::StopToken& stop) const {
  const VectorXd scaled = scale_.cwiseProduct(v);
  const double shift = mean_.dot(scaled);
  VectorXd out(rows());
  base::Pace pace(stop);
  for (Index i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(row(i).count + 1));
    if (const double* full = FullRow(i)) {
      out[i] = Eigen::Map<const VectorXd>(full, cols()).dot(scaled) - shift;
      continue;
    }
    double sum = 0.0;
    ForEach(i, [&](Index j, double value) { sum += value * scaled[j]; });
    out[i] = sum - shift;
  }
  return out;
}

absl::StatusOr<VectorXd> LeastSquaresData::MultiplyTransposed(const VectorXd& r, const base::StopToken& stop) const {
  VectorXd out = VectorXd::Zero(cols());
  base::Pace pace(stop);
  for (Index i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(row(i).count + 1));
    if (const double* full = FullRow(i)) {
      out += r[i] * Eigen::Map<const VectorXd>(full, cols());
      continue;
    }
    ForEach(i, [&](Index j, double value) { out[j] += value * r[i]; });
  }
  return VectorXd(scale_.cwiseProduct(out - r.sum() * mean_));
}

MatrixXd LeastSquaresData::Dense(Index begin, Index count) const {
  MatrixXd out = (-mean_.transpose()).replicate(count, 1);
  for (Index i = 0; i < count; ++i) {
    ForEach(begin + i, [&](Index j, double value) { out(i, j) += value; });
  }
  out.array().rowwise() *= scale_.transpose().array();
  return out;
}

absl::StatusOr<MatrixXd> LeastSquaresData::Gram(const base::StopToken& stop) const {
  // Works in strips of rows, each of which is a matrix product.
  constexpr Index kStrip = 64;
  MatrixXd gram = MatrixXd::Zero(cols(), cols());
  for (Index begin = 0; begin < rows(); begin += kStrip) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const MatrixXd strip = Dense(begin, std::min(kStrip, rows() - begin));
    gram.selfadjointView<Eigen::Lower>().rankUpdate(strip.transpose());
  }
  gram.triangularView<Eigen::StrictlyUpper>() = gram.transpose();
  return gram;
}

absl::StatusOr<MatrixXd> LeastSquaresData::Kernel(const VectorXd& weight, const base::StopToken& stop) const {
  constexpr Index kStrip = 64;
  constexpr double kSparse = 0.1;  // Share of stored entries below which products with them are faster than dense ones.
  const Index n = rows();
  MatrixXd kernel(n, n);
  if (static_cast<double>(nonzeros_) < kSparse * static_cast<double>(n) * static_cast<double>(cols())) {
    for (Index i = 0; i < n; ++i) {
      const VectorXd row = weight.cwiseProduct(Dense(i, 1).transpose());
      LUTHIER_ASSIGN_OR_RETURN(kernel.col(i), Multiply(row, stop));
    }
    return kernel;
  }
  for (Index begin = 0; begin < n; begin += kStrip) {
    const Index count = std::min(kStrip, n - begin);
    const MatrixXd strip = Dense(begin, count) * weight.asDiagonal();
    for (Index other = begin; other < n; other += kStrip) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
      const Index columns = std::min(kStrip, n - other);
      kernel.block(other, begin, columns, count).noalias() = Dense(other, columns) * strip.transpose();
    }
  }
  kernel.triangularView<Eigen::StrictlyUpper>() = kernel.transpose();
  return kernel;
}

absl::StatusOr<LeastSquaresGram> LeastSquaresGram::Create(const LeastSquaresData& data, const base::StopToken& stop) {
  LeastSquaresGram out;
  LUTHIER_ASSIGN_OR_RETURN(out.matrix, data.Gram(stop));
  LUTHIER_ASSIGN_OR_RETURN(out.product, data.MultiplyTransposed(data.target(), stop));
  out.half_square = 0.5 * data.target().squaredNorm();
  return out;
}

RidgeInner::RidgeInner(const LeastSquaresData* data, const LeastSquaresGram* gram, ColumnPenalties groups, VectorXd l2)
    : data_(data), gram_(gram), groups_(std::move(groups)), l2_(std::move(l2)) {
  LUTHIER_CHECK(l2_.size() == data_->cols() && l2_.minCoeff() > 0.0);
}

absl::StatusOr<LinearSolution> RidgeInner::Solve(double tolerance, int max_iterations, const base::StopToken& stop) {
  if (gram_ != nullptr && kernel_.size() == 0) {
    return SolveQuadratic(*this, gram_->product, tolerance, max_iterations, stop);
  }
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd b, data_->MultiplyTransposed(data_->target(), stop));
  if (kernel_.size() > 0) {
    LUTHIER_ASSIGN_OR_RETURN(const bool factored, PreparePreconditioner(stop));
    LinearSolution solution;
    solution.weights = VectorXd::Zero(dim());
    solution.products = 1;
    if (!factored) {
      solution.outcome = linear::CgOutcome::kNonFinite;
      return solution;
    }
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd back, data_->MultiplyTransposed(factor_->Solve(data_->target()), stop));
    solution.weights = back.cwiseQuotient(l2_);
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd gradient, ExactGradient(solution.weights, stop));
    solution.relative_gradient = b.norm() > 0.0 ? gradient.norm() / b.norm() : 0.0;
    const bool met = solution.relative_gradient <= tolerance;
    solution.outcome = met ? linear::CgOutcome::kConverged : linear::CgOutcome::kPrecision;
    return solution;
  }
  return SolveQuadratic(*this, b, tolerance, max_iterations, stop);
}

absl::StatusOr<double> RidgeInner::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  if (gram_ != nullptr) {
    const VectorXd product = gram_->matrix.selfadjointView<Eigen::Lower>() * x + l2_.cwiseProduct(x);
    if (gradient != nullptr) *gradient = product - gram_->product;
    return 0.5 * x.dot(product) - x.dot(gram_->product) + gram_->half_square;
  }
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, data_->Multiply(x, stop));
  const VectorXd residual = product - data_->target();
  if (gradient != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(*gradient, data_->MultiplyTransposed(residual, stop));
    *gradient += l2_.cwiseProduct(x);
  }
  return 0.5 * residual.squaredNorm() + 0.5 * l2_.dot(x.cwiseAbs2());
}

absl::StatusOr<VectorXd> RidgeInner::ExactGradient(const VectorXd& x, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, data_->Multiply(x, stop));
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd back, data_->MultiplyTransposed(product - data_->target(), stop));
  return VectorXd(back + l2_.cwiseProduct(x));
}

absl::Status RidgeInner::SetPoint(const VectorXd& x, const base::StopToken&) {
  x_ = x;
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> RidgeInner::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  // Only half of the matrix is read, which takes half of the time at sizes beyond the caches.
  if (gram_ != nullptr) return VectorXd(gram_->matrix.selfadjointView<Eigen::Lower>() * v + l2_.cwiseProduct(v));
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, data_->Multiply(v, stop));
  LUTHIER_ASSIGN_OR_RETURN(VectorXd back, data_->MultiplyTransposed(product, stop));
  return VectorXd(back + l2_.cwiseProduct(v));
}

absl::StatusOr<VectorXd> RidgeInner::HessianDiagonal(const base::StopToken&) {
  return VectorXd(data_->column_squares() + l2_);
}

absl::StatusOr<bool> RidgeInner::PreparePreconditioner(const base::StopToken& stop) {
  if (gram_ == nullptr && kernel_.size() == 0) return false;
  if (factor_.has_value()) return true;
  MatrixXd hessian = kernel_.size() > 0 ? kernel_ : gram_->matrix;
  if (kernel_.size() > 0) {
    hessian.diagonal().array() += 1.0;
  } else {
    hessian.diagonal() += l2_;
  }
  math::CholeskyOptions options;
  options.jitter_scale = hessian.diagonal().maxCoeff();
  options.first_jitter = 1e-16;
  LUTHIER_ASSIGN_OR_RETURN(factor_, math::Cholesky::Factor(hessian, options, stop));
  return factor_.has_value();
}

VectorXd RidgeInner::Precondition(const VectorXd& r) {
  if (kernel_.size() == 0) return factor_->Solve(r);
  const VectorXd scaled = r.cwiseQuotient(l2_);
  const VectorXd product = data_->Multiply(scaled, {}).value();
  return scaled - data_->MultiplyTransposed(factor_->Solve(product), {}).value().cwiseQuotient(l2_);
}

VectorXd RidgeInner::CrossTransposeVector(const VectorXd& q) {
  return groups_.Sums(l2_.cwiseProduct(x_).cwiseProduct(q), 1);
}

double RidgeInner::CrossNorm() {
  // The columns of D are disjoint, so the norm is the largest of theirs.
  return std::sqrt(groups_.Sums(l2_.cwiseProduct(x_).cwiseAbs2(), 1).maxCoeff());
}

absl::StatusOr<InnerConstants> RidgeInner::Constants(const base::StopToken&) {
  InnerConstants constants;
  constants.mu = l2_.minCoeff();
  constants.cross_lipschitz = l2_.maxCoeff();
  constants.certified = true;
  return constants;
}

absl::StatusOr<double> RidgeOuter::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  const double m = static_cast<double>(data_->rows());
  LUTHIER_ASSIGN_OR_RETURN(VectorXd residual, data_->Multiply(x, stop));
  residual -= data_->target();
  if (gradient != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(*gradient, data_->MultiplyTransposed(residual, stop));
    *gradient *= 2.0 / m;
  }
  return residual.squaredNorm() / m;
}

double RidgeOuter::GradientLipschitz() {
  // |X~|_2^2 <= |X~|_F^2.
  return 2.0 * data_->column_squares().sum() / static_cast<double>(data_->rows());
}

}  // namespace luthier::bilevel
