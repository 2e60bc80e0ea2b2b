#include "lib/linear/logistic.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/linear/blocked_sum.h"
#include "lib/linear/logistic_function.h"
#include "lib/linear/minimizer.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// log(1 + e^-t) without overflow or cancellation.
double Softplus(double t) {
  return t > 0.0 ? std::log1p(std::exp(-t)) : -t + std::log1p(std::exp(t));
}

// 1 / (1 + e^-t).
double Sigmoid(double t) {
  if (t >= 0.0) return 1.0 / (1.0 + std::exp(-t));
  const double e = std::exp(t);
  return e / (1.0 + e);
}

// Replaces z (a multiple of 4 entries, of which `classes` count) by its softmax. Returns log(sum exp z) - z[label] of
// the incoming scores.
double SoftmaxLoss(int classes, int32_t label, double* z) {
  int top = 0;
  for (int k = 1; k < classes; ++k) {
    if (z[k] > z[top]) top = k;
  }
  const double shift = z[top];
  const double lag = shift - z[label];
  // Eigen's exp is vectorised; the C library's is not.
  for (int k = 0; k < classes; k += 4) {
    Eigen::Map<Eigen::Array4d> part(z + k);
    part = (part - shift).exp();
  }
  double others = 0.0;
  for (int k = 0; k < classes; ++k) {
    if (k != top) others += z[k];
  }
  for (int k = 0; k < classes; ++k) z[k] /= 1.0 + others;
  return std::log1p(others) + lag;
}

// Calls f with std::integral_constant<int, stride> if a row of this many sums fits into registers. Otherwise returns
// false and calls nothing.
template <typename F>
bool WithLanes(int stride, F&& f) {
  switch (stride) {
    case 4:
      f(std::integral_constant<int, 4>());
      return true;
    case 8:
      f(std::integral_constant<int, 8>());
      return true;
    case 12:
      f(std::integral_constant<int, 12>());
      return true;
    case 16:
      f(std::integral_constant<int, 16>());
      return true;
    case 20:
      f(std::integral_constant<int, 20>());
      return true;
    case 24:
      f(std::integral_constant<int, 24>());
      return true;
    case 28:
      f(std::integral_constant<int, 28>());
      return true;
    default:
      return false;
  }
}

VectorXd Totals(const std::vector<BlockedSum>& sums) {
  VectorXd totals(static_cast<Index>(sums.size()));
  for (size_t k = 0; k < sums.size(); ++k) totals[static_cast<Index>(k)] = sums[k].Total();
  return totals;
}

}  // namespace

absl::StatusOr<LogisticData> LogisticData::Create(const data::Dataset* dataset, std::vector<int32_t> rows,
                                                  data::Standardization standardization, bool intercept,
                                                  const base::StopToken& stop) {
  LogisticData data(dataset, std::move(rows), std::move(standardization), intercept);
  LUTHIER_RETURN_IF_ERROR(data.ComputeLipschitz(stop));
  LUTHIER_RETURN_IF_ERROR(data.ComputeColumnScale(stop));
  return data;
}

LogisticData::LogisticData(const data::Dataset* dataset, std::vector<int32_t> rows,
                           data::Standardization standardization, bool intercept)
    : dataset_(dataset),
      rows_(std::move(rows)),
      standardization_(std::move(standardization)),
      intercept_(intercept),
      features_(dataset->x.cols),
      scores_(dataset->num_classes() == 2 ? 1 : dataset->num_classes()),
      stride_(scores_ == 1 ? 1 : (scores_ + 3) / 4 * 4),
      dim_(static_cast<Index>(features_) * scores_ + (intercept ? std::max(1, scores_ - 1) : 0)) {
  LUTHIER_CHECK(standardization_.identity() || standardization_.mean.size() == features_);
  if (standardization_.identity()) return;
  // Constant columns, centred, hold nothing but rounding.
  inverse_ = standardization_.deviation.cwiseInverse();
  for (size_t j = 0; j < standardization_.constant.size(); ++j) {
    if (standardization_.constant[j]) inverse_[static_cast<Index>(j)] = 0.0;
  }
}

absl::Status LogisticData::ComputeLipschitz(const base::StopToken& stop) {
  const data::SparseMatrix& x = dataset_->x;
  const bool plain = standardization_.identity();
  // |a_i - m|^2 (scaled) = sum over entries of (a - m)^2 - m^2, plus the whole |m|^2.
  double base = intercept_ ? 1.0 : 0.0;
  if (!plain) base += standardization_.mean.cwiseProduct(inverse_).squaredNorm();
  BlockedSum total;
  double largest = 0.0;
  base::Pace pace(stop);
  for (const int32_t row : rows_) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x.row_start[row + 1] - x.row_start[row] + 1));
    double square = base;
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const double a = x.value[e];
      if (plain) {
        square += a * a;
      } else {
        const double scale = inverse_[x.column[e]];
        const double m = standardization_.mean[x.column[e]] * scale;
        square += a * scale * (a * scale - 2.0 * m);
      }
    }
    square = std::max(square, 0.0);
    total.Add(square);
    largest = std::max(largest, square);
  }
  const double frobenius = total.Total();
  largest_row_norm_ = std::sqrt(largest);
  const bool binary = scores_ == 1;
  gradient_lipschitz_ = frobenius * (binary ? 0.25 : 0.5);
  hessian_lipschitz_ = frobenius * std::sqrt(largest) * (binary ? 1.0 / (6.0 * std::sqrt(3.0)) : std::sqrt(0.5));
  return absl::OkStatus();
}

LogisticData::Scorer LogisticData::MakeScorer(const VectorXd& w) const {
  LUTHIER_CHECK(w.size() == dim_);
  const int K = scores_;
  Scorer scorer;
  scorer.v = w.data();
  scorer.offset = VectorXd::Zero(stride_);
  if (intercept_) {
    if (K == 1) {
      scorer.offset[0] = w[penalized()];
    } else {
      scorer.offset.segment(1, K - 1) = w.tail(K - 1);
    }
  }
  const bool plain = standardization_.identity();
  if (!plain || stride_ != K) {
    scorer.scaled = VectorXd::Zero(features_ * stride_);
    for (int64_t j = 0; j < features_; ++j) {
      for (int k = 0; k < K; ++k) {
        const double v = plain ? w[j * K + k] : w[j * K + k] * inverse_[j];
        scorer.scaled[j * stride_ + k] = v;
        if (!plain) scorer.offset[k] -= v * standardization_.mean[j];
      }
    }
    scorer.v = scorer.scaled.data();
  }
  return scorer;
}

void LogisticData::Scores(const Scorer& scorer, int64_t i, double* z) const {
  const data::SparseMatrix& x = dataset_->x;
  const int32_t row = rows_[i];
  const int64_t begin = x.row_start[row], end = x.row_start[row + 1];
  if (scores_ == 1) {
    double sum = 0.0;
    for (int64_t e = begin; e < end; ++e) sum += x.value[e] * scorer.v[x.column[e]];
    z[0] = sum + scorer.offset[0];
    return;
  }
  const auto add = [&](auto lanes) {
    using Lane = Eigen::Array<double, decltype(lanes)::value, 1>;
    const double* value = x.value.data();
    const int32_t* column = x.column.data();
    Lane sum = Eigen::Map<const Lane>(scorer.offset.data());
    for (int64_t e = begin; e < end; ++e) {
      sum += value[e] * Eigen::Map<const Lane>(scorer.v + int64_t{column[e]} * Lane::SizeAtCompileTime);
    }
    Eigen::Map<Lane> out(z);
    out = sum;
  };
  if (WithLanes(stride_, add)) return;
  std::copy_n(scorer.offset.data(), stride_, z);
  for (int64_t e = begin; e < end; ++e) {
    const double* v = scorer.v + int64_t{x.column[e]} * stride_;
    const double a = x.value[e];
    for (int k = 0; k < stride_; ++k) z[k] += a * v[k];
  }
}

void LogisticData::Scatter(int64_t i, const double* r, VectorXd* sums) const {
  const data::SparseMatrix& x = dataset_->x;
  const int32_t row = rows_[i];
  const int64_t begin = x.row_start[row], end = x.row_start[row + 1];
  double* g = sums->data();
  if (scores_ == 1) {
    for (int64_t e = begin; e < end; ++e) g[x.column[e]] += x.value[e] * r[0];
    return;
  }
  const auto add = [&](auto lanes) {
    using Lane = Eigen::Array<double, decltype(lanes)::value, 1>;
    const double* value = x.value.data();
    const int32_t* column = x.column.data();
    const Lane residual = Eigen::Map<const Lane>(r);
    for (int64_t e = begin; e < end; ++e) {
      Eigen::Map<Lane>(g + int64_t{column[e]} * Lane::SizeAtCompileTime) += value[e] * residual;
    }
  };
  if (WithLanes(stride_, add)) return;
  for (int64_t e = begin; e < end; ++e) {
    double* out = g + int64_t{x.column[e]} * stride_;
    const double a = x.value[e];
    for (int k = 0; k < stride_; ++k) out[k] += a * r[k];
  }
}

VectorXd LogisticData::FinishScatter(const VectorXd& residual_sum, const VectorXd& sums) const {
  const int K = scores_;
  const bool plain = standardization_.identity();
  VectorXd gradient(dim_);
  for (int64_t j = 0; j < features_; ++j) {
    for (int k = 0; k < K; ++k) {
      const double g = sums[j * stride_ + k];
      gradient[j * K + k] = plain ? g : (g - standardization_.mean[j] * residual_sum[k]) * inverse_[j];
    }
  }
  if (!intercept_) return gradient;
  if (K == 1) {
    gradient[penalized()] = residual_sum[0];
  } else {
    gradient.tail(K - 1) = residual_sum.segment(1, K - 1);
  }
  return gradient;
}

absl::StatusOr<double> LogisticData::Loss(const VectorXd& w, VectorXd* gradient, const base::StopToken& stop) const {
  const int K = scores_;
  const Scorer scorer = MakeScorer(w);
  VectorXd sums;
  if (gradient != nullptr) sums = VectorXd::Zero(features_ * stride_);
  BlockedSum total;
  std::vector<BlockedSum> residual_sum(K);
  std::vector<double> z(stride_, 0.0);
  base::Pace pace(stop);
  const int64_t times = gradient == nullptr ? 1 : 2;
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(times * Work(i)));
    const int32_t label = dataset_->label[rows_[i]];
    Scores(scorer, i, z.data());
    if (K == 1) {
      const double margin = label == 1 ? z[0] : -z[0];
      total.Add(Softplus(margin));
      z[0] = label == 1 ? -Sigmoid(-margin) : Sigmoid(-margin);
    } else {
      total.Add(SoftmaxLoss(K, label, z.data()));
      // The probabilities of the others are exact where that of the label is about 1.
      z[label] = 0.0;
      double others = 0.0;
      for (int k = 0; k < K; ++k) others += z[k];
      z[label] = -others;
    }
    if (gradient == nullptr) continue;
    for (int k = K; k < stride_; ++k) z[k] = 0.0;
    Scatter(i, z.data(), &sums);
    for (int k = 0; k < K && NeedsSums(); ++k) residual_sum[k].Add(z[k]);
  }
  if (gradient != nullptr) *gradient = FinishScatter(Totals(residual_sum), sums);
  return total.Total();
}

absl::StatusOr<int64_t> LogisticData::CountCorrect(const VectorXd& w, const base::StopToken& stop) const {
  const Scorer scorer = MakeScorer(w);
  std::vector<double> z(stride_);
  int64_t correct = 0;
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(Work(i)));
    Scores(scorer, i, z.data());
    int32_t best = 0;
    if (scores_ == 1) {
      best = z[0] > 0.0 ? 1 : 0;
    } else {
      best = static_cast<int32_t>(std::max_element(z.begin(), z.begin() + scores_) - z.begin());
    }
    correct += best == dataset_->label[rows_[i]] ? 1 : 0;
  }
  return correct;
}

absl::StatusOr<MatrixXd> LogisticData::AllScores(const VectorXd& w, const base::StopToken& stop) const {
  const Scorer scorer = MakeScorer(w);
  MatrixXd all(scores_, rows());
  std::vector<double> z(stride_);
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(Work(i)));
    Scores(scorer, i, z.data());
    std::copy_n(z.data(), scores_, all.col(i).data());
  }
  return all;
}

double LogisticData::LossAt(const MatrixXd& scores, const VectorXd& shift) const {
  BlockedSum total;
  std::vector<double> z(stride_, 0.0);
  for (int64_t i = 0; i < rows(); ++i) {
    for (int k = 0; k < scores_; ++k) z[k] = scores(k, i) + shift[k];
    const int32_t label = dataset_->label[rows_[i]];
    total.Add(scores_ == 1 ? Softplus(label == 1 ? z[0] : -z[0]) : SoftmaxLoss(scores_, label, z.data()));
  }
  return total.Total();
}

double LogisticData::SlopeAlong(const MatrixXd& scores, const MatrixXd& direction, double step,
                                double* curvature) const {
  const int K = scores_;
  BlockedSum slope, bend;
  std::vector<double> z(stride_, 0.0);
  for (int64_t i = 0; i < rows(); ++i) {
    const int32_t label = dataset_->label[rows_[i]];
    const auto d = direction.col(i);
    for (int k = 0; k < K; ++k) z[k] = scores(k, i) + step * d[k];
    if (K == 1) {
      const double s = label == 1 ? 1.0 : -1.0, q = Sigmoid(-s * z[0]);
      slope.Add(-s * q * d[0]);
      bend.Add(q * (1.0 - q) * d[0] * d[0]);
      continue;
    }
    SoftmaxLoss(K, label, z.data());
    // Relative to the label's, so that a row whose label is certain leaves no rounding.
    double mean = 0.0, square = 0.0;
    for (int k = 0; k < K; ++k) {
      const double away = d[k] - d[label];
      mean += z[k] * away;
      square += z[k] * away * away;
    }
    slope.Add(mean);
    bend.Add(square - mean * mean);
  }
  *curvature = bend.Total();
  return slope.Total();
}

absl::StatusOr<VectorXd> LogisticData::MinimizeIntercepts(const MatrixXd& scores, const base::StopToken& stop) const {
  // The gradient that counts as 0, a row; and the farthest that one step goes.
  constexpr double kRoundingOfRow = 1e-14, kFarthest = 5.0;
  constexpr int kMost = 100, kMostDense = 64;
  const int K = scores_;
  const int first = K == 1 ? 0 : 1;  // The first class of several has none.
  const double n = static_cast<double>(rows());
  VectorXd shift = VectorXd::Zero(K), best_shift = shift;
  double best = std::numeric_limits<double>::infinity();
  int fruitless = 0;
  for (int step = 0; step < kMost && fruitless < 3; ++step) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    std::vector<BlockedSum> sums(static_cast<size_t>(K));
    MatrixXd hessian = MatrixXd::Zero(K, K);
    std::vector<double> z(stride_, 0.0);
    VectorXd total = VectorXd::Zero(K);
    for (int64_t i = 0; i < rows(); ++i) {
      const int32_t label = dataset_->label[rows_[i]];
      for (int k = 0; k < K; ++k) z[k] = scores(k, i) + shift[k];
      if (K == 1) {
        const double s = label == 1 ? 1.0 : -1.0, q = Sigmoid(-s * z[0]);
        sums[0].Add(-s * q);
        hessian(0, 0) += q * (1.0 - q);
        continue;
      }
      SoftmaxLoss(K, label, z.data());
      const Eigen::Map<const VectorXd> p(z.data(), K);
      if (K <= kMostDense) hessian.selfadjointView<Eigen::Lower>().rankUpdate(p, -1.0);
      total += p;
      double others = 0.0;
      for (int k = 0; k < K; ++k) {
        if (k == label) continue;
        sums[static_cast<size_t>(k)].Add(z[k]);
        others += z[k];
      }
      sums[static_cast<size_t>(label)].Add(-others);
    }
    if (K > 1) hessian.diagonal() += total;
    const VectorXd gradient = Totals(sums).tail(K - first);
    const double largest = gradient.lpNorm<Eigen::Infinity>();
    if (!std::isfinite(largest)) break;
    fruitless = largest < 0.5 * best ? 0 : fruitless + 1;
    if (largest < best) {
      best = largest;
      best_shift = shift;
    }
    if (largest == 0.0) break;
    auto block = hessian.bottomRightCorner(K - first, K - first);
    block.diagonal().array() += 1e-14 * n * 0.25;
    const VectorXd move = -block.selfadjointView<Eigen::Lower>().ldlt().solve(gradient);
    if (!move.allFinite()) break;
    shift.tail(K - first) += move.cwiseMax(-kFarthest).cwiseMin(kFarthest);
  }
  if (!(best <= kRoundingOfRow * n)) return VectorXd();
  return VectorXd(best_shift.tail(K - first));
}

LogisticData::Curvature LogisticData::LargestCurvature() const {
  Curvature curvature;
  const double classes = std::max(2, scores_);
  curvature.probability = MatrixXd::Constant(scores_, rows(), 1.0 / classes);
  curvature.factor = 0.5 * classes;
  return curvature;
}

absl::StatusOr<LogisticData::Curvature> LogisticData::CurvatureAt(const VectorXd& w,
                                                                  const base::StopToken& stop) const {
  const Scorer scorer = MakeScorer(w);
  Curvature curvature;
  curvature.probability.resize(scores_, rows());
  std::vector<double> z(stride_);
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(Work(i)));
    Scores(scorer, i, z.data());
    if (scores_ == 1) {
      z[0] = Sigmoid(z[0]);
    } else {
      SoftmaxLoss(scores_, 0, z.data());
    }
    std::copy_n(z.data(), scores_, curvature.probability.col(i).data());
  }
  return curvature;
}

absl::StatusOr<VectorXd> LogisticData::HessianVector(const Curvature& curvature, const VectorXd& v,
                                                     const base::StopToken& stop) const {
  const int K = scores_;
  const Scorer scorer = MakeScorer(v);
  VectorXd sums = VectorXd::Zero(features_ * stride_);
  std::vector<BlockedSum> residual_sum(K);
  std::vector<double> r(stride_);
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * Work(i)));
    Scores(scorer, i, r.data());
    const double* prob = curvature.probability.col(i).data();
    if (K == 1) {
      r[0] *= curvature.factor * prob[0] * (1.0 - prob[0]);
    } else {
      double mean = 0.0;
      for (int k = 0; k < K; ++k) mean += prob[k] * r[k];
      for (int k = 0; k < K; ++k) r[k] = curvature.factor * prob[k] * (r[k] - mean);
    }
    Scatter(i, r.data(), &sums);
    for (int k = 0; k < K && NeedsSums(); ++k) residual_sum[k].Add(r[k]);
  }
  return FinishScatter(Totals(residual_sum), sums);
}

absl::StatusOr<VectorXd> LogisticData::HessianDiagonal(const Curvature& curvature, const base::StopToken& stop) const {
  const data::SparseMatrix& x = dataset_->x;
  const int K = scores_;
  const bool plain = standardization_.identity();
  VectorXd squares = VectorXd::Zero(dim_);
  VectorXd firsts = plain ? VectorXd() : VectorXd(VectorXd::Zero(penalized()));
  VectorXd totals = VectorXd::Zero(K);
  std::vector<double> d(K);
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll((plain ? 1 : 2) * Work(i)));
    const int32_t row = rows_[i];
    for (int k = 0; k < K; ++k) {
      const double prob = curvature.probability(k, i);
      d[k] = curvature.factor * prob * (1.0 - prob);
      totals[k] += d[k];
    }
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const int64_t at = static_cast<int64_t>(x.column[e]) * K;
      const double a = x.value[e];
      for (int k = 0; k < K; ++k) {
        squares[at + k] += d[k] * a * a;
        if (!plain) firsts[at + k] += d[k] * a;
      }
    }
  }
  if (!plain) {
    for (int64_t j = 0; j < features_; ++j) {
      const double m = standardization_.mean[j];
      for (int k = 0; k < K; ++k) {
        const double s = squares[j * K + k] - 2.0 * m * firsts[j * K + k] + m * m * totals[k];
        squares[j * K + k] = std::max(s, 0.0) * inverse_[j] * inverse_[j];
      }
    }
  }
  if (intercept_) {
    if (K == 1) {
      squares[penalized()] = totals[0];
    } else {
      squares.tail(K - 1) = totals.tail(K - 1);
    }
  }
  return squares;
}

absl::Status LogisticData::ComputeColumnScale(const base::StopToken& stop) {
  const data::SparseMatrix& x = dataset_->x;
  const double n = static_cast<double>(std::max<int64_t>(1, rows()));
  VectorXd squares = VectorXd::Zero(features_), stored = VectorXd::Zero(features_);
  const bool plain = standardization_.identity();
  base::Pace pace(stop);
  for (const int32_t row : rows_) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * (x.row_start[row + 1] - x.row_start[row]) + 1));
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const int32_t j = x.column[e];
      const double a = plain ? x.value[e] : (x.value[e] - standardization_.mean[j]) * inverse_[j];
      squares[j] += a * a;
      stored[j] += 1.0;
    }
  }
  if (!plain) {
    squares.array() += (n - stored.array()) * (standardization_.mean.array() * inverse_.array()).square();
  }
  column_scale_ = VectorXd::Ones(dim_);
  for (int64_t j = 0; j < features_; ++j) {
    const double scale = std::sqrt(squares[j] / n);
    if (scale > 0.0 && std::isfinite(scale)) column_scale_.segment(j * scores_, scores_).setConstant(scale);
  }
  return absl::OkStatus();
}

absl::StatusOr<Eigen::MatrixXd> LogisticData::DenseRows(const std::vector<int64_t>& rows,
                                                        const base::StopToken& stop) const {
  std::vector<int32_t> numbers;
  for (const int64_t row : rows) numbers.push_back(rows_[static_cast<size_t>(row)]);
  LUTHIER_ASSIGN_OR_RETURN(Eigen::MatrixXd x, data::DenseRows(dataset_->x, numbers, standardization_, stop));
  if (!intercept_) return x;
  x.conservativeResize(Eigen::NoChange, x.cols() + 1);
  x.col(x.cols() - 1).setOnes();
  return x;
}

double LogisticData::mean_entries() const {
  const data::SparseMatrix& x = dataset_->x;
  return static_cast<double>(x.nonzeros()) / static_cast<double>(std::max<int64_t>(1, x.rows));
}

LogisticProblem::LogisticProblem(const LogisticData* data, double l2) : data_(data), l2_(l2) {
  LUTHIER_CHECK(std::isfinite(l2) && l2 >= 0.0);
}

LogisticProblem::LogisticProblem(const LogisticData* data, const VectorXd& l2)
    : data_(data), penalties_(data->penalized()), l2_(l2.size() == 0 ? 0.0 : l2.minCoeff()) {
  LUTHIER_CHECK((l2.size() == data->features() || l2.size() == data->penalized()) && l2.allFinite() && l2_ >= 0.0);
  if (l2.size() == data->penalized()) {
    penalties_ = l2;
    return;
  }
  const int K = data->scores();
  for (Index j = 0; j < l2.size(); ++j) penalties_.segment(j * K, K).setConstant(l2[j]);
}

VectorXd LogisticProblem::Penalize(const VectorXd& w) const {
  const Index p = data_->penalized();
  return penalties_.size() == 0 ? VectorXd(l2_ * w.head(p)) : VectorXd(penalties_.cwiseProduct(w.head(p)));
}

VectorXd LogisticProblem::PenaltyOfWeights() const {
  VectorXd penalty = VectorXd::Zero(dim());
  penalty.head(data_->penalized()) = Penalize(VectorXd::Ones(dim()));
  return penalty;
}

absl::StatusOr<double> LogisticProblem::Value(const VectorXd& w, VectorXd* gradient,
                                              const base::StopToken& stop) const {
  const Index p = data_->penalized();
  LUTHIER_ASSIGN_OR_RETURN(const double loss, data_->Loss(w, gradient, stop));
  if (gradient != nullptr) gradient->head(p) += Penalize(w);
  return loss + (penalties_.size() == 0 ? 0.5 * l2_ * w.head(p).squaredNorm() : 0.5 * Penalize(w).dot(w.head(p)));
}

absl::StatusOr<VectorXd> LogisticProblem::HessianVector(const LogisticData::Curvature& curvature, const VectorXd& v,
                                                        const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd out, data_->HessianVector(curvature, v, stop));
  out.head(data_->penalized()) += Penalize(v);
  return out;
}

absl::StatusOr<VectorXd> LogisticProblem::HessianDiagonal(const LogisticData::Curvature& curvature,
                                                          const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd diagonal, data_->HessianDiagonal(curvature, stop));
  diagonal.head(data_->penalized()) += Penalize(VectorXd::Ones(dim()));
  return diagonal;
}

absl::StatusOr<double> LogisticProblem::DualityGap(const VectorXd& w, const base::StopToken& stop) const {
  const Index p = penalized();
  if (!(l2_ > 0.0)) return INFINITY;
  VectorXd at = w;
  double above = 0.0;  // h(w, b) - h(w, b*).
  if (p < dim()) {
    LUTHIER_ASSIGN_OR_RETURN(const MatrixXd scores, data_->AllScores(w, stop));
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd shift, data_->MinimizeIntercepts(scores, stop));
    if (shift.size() == 0) return INFINITY;
    at.tail(dim() - p) += shift;
    VectorXd all = VectorXd::Zero(data_->scores());
    const double here = data_->LossAt(scores, all);
    all.tail(shift.size()) = shift;
    above = std::max(0.0, here - data_->LossAt(scores, all));
  }
  VectorXd gradient;
  LUTHIER_RETURN_IF_ERROR(Value(at, &gradient, stop).status());
  return above + 0.5 * gradient.head(p).cwiseAbs2().cwiseQuotient(PenaltyOfWeights().head(p)).sum();
}

VectorXd LogisticProblem::BoundDiagonal() const {
  const double classes = std::max(2, data_->scores());
  const double bend = 0.5 * (1.0 - 1.0 / classes) * static_cast<double>(std::max<int64_t>(1, rows()));
  return bend * column_scale().cwiseAbs2() + PenaltyOfWeights();
}

absl::StatusOr<VectorXd> LogisticProblem::BoundVector(const VectorXd& v, const base::StopToken& stop) const {
  return HessianVector(data_->LargestCurvature(), v, stop);
}

std::unique_ptr<SecondOrderFunction> LogisticProblem::MakeFunction(bool direct) const {
  return std::make_unique<LogisticFunction>(this, direct);
}

std::string LogisticProblem::Describe() const {
  return absl::StrCat(rows(), " rows, ", data_->features(), " columns, ", std::max(2, data_->scores()), " classes, l2 ",
                      absl::StrFormat("%.3g", l2_));
}

Metrics EvaluateMetrics(const LogisticData& data, const VectorXd& w) {
  const double n = static_cast<double>(data.rows());
  return {data.Loss(w, nullptr).value() / n, static_cast<double>(data.CountCorrect(w).value()) / n};
}

}  // namespace luthier::linear
