#include "lib/linear/logistic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/linear/blocked_sum.h"
#include "lib/linear/minimizer.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
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

// z becomes the softmax; returns log(sum exp z) - z[label] of the incoming scores.
double SoftmaxLoss(int classes, int32_t label, double* z) {
  int top = 0;
  for (int k = 1; k < classes; ++k) {
    if (z[k] > z[top]) top = k;
  }
  const double shift = z[top];
  const double lag = shift - z[label];
  double others = 0.0;
  for (int k = 0; k < classes; ++k) {
    z[k] = std::exp(z[k] - shift);
    if (k != top) others += z[k];
  }
  for (int k = 0; k < classes; ++k) z[k] /= 1.0 + others;
  return std::log1p(others) + lag;
}

}  // namespace

absl::StatusOr<LogisticData> LogisticData::Create(const data::Dataset* dataset, std::vector<int32_t> rows,
                                                  data::Standardization standardization, bool intercept,
                                                  const base::StopToken& stop) {
  LogisticData data(dataset, std::move(rows), std::move(standardization), intercept);
  LUTHIER_RETURN_IF_ERROR(data.ComputeLipschitz(stop));
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
      dim_(static_cast<Index>(features_) * scores_ + (intercept ? std::max(1, scores_ - 1) : 0)) {
  LUTHIER_CHECK(standardization_.identity() || standardization_.mean.size() == features_);
}

absl::Status LogisticData::ComputeLipschitz(const base::StopToken& stop) {
  const data::SparseMatrix& x = dataset_->x;
  const bool plain = standardization_.identity();
  // |a_i - m|^2 (scaled) = sum over entries of (a - m)^2 - m^2, plus the whole |m|^2.
  double base = intercept_ ? 1.0 : 0.0;
  if (!plain) base += standardization_.mean.cwiseQuotient(standardization_.deviation).squaredNorm();
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
        const double scale = standardization_.deviation[x.column[e]];
        const double m = standardization_.mean[x.column[e]] / scale;
        square += (a / scale) * (a / scale - 2.0 * m);
      }
    }
    square = std::max(square, 0.0);
    total.Add(square);
    largest = std::max(largest, square);
  }
  const double frobenius = total.Total();
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
  scorer.offset = VectorXd::Zero(K);
  if (intercept_) {
    if (K == 1) {
      scorer.offset[0] = w[penalized()];
    } else {
      scorer.offset.tail(K - 1) = w.tail(K - 1);
    }
  }
  if (!standardization_.identity()) {
    scorer.scaled.resize(penalized());
    for (int64_t j = 0; j < features_; ++j) {
      for (int k = 0; k < K; ++k) {
        const double v = w[j * K + k] / standardization_.deviation[j];
        scorer.scaled[j * K + k] = v;
        scorer.offset[k] -= v * standardization_.mean[j];
      }
    }
    scorer.v = scorer.scaled.data();
  }
  return scorer;
}

void LogisticData::Scores(const Scorer& scorer, int64_t i, double* z) const {
  const data::SparseMatrix& x = dataset_->x;
  const int32_t row = rows_[i];
  const int64_t end = x.row_start[row + 1];
  if (scores_ == 1) {
    double sum = 0.0;
    for (int64_t e = x.row_start[row]; e < end; ++e) sum += x.value[e] * scorer.v[x.column[e]];
    z[0] = sum + scorer.offset[0];
    return;
  }
  const int K = scores_;
  for (int k = 0; k < K; ++k) z[k] = scorer.offset[k];
  for (int64_t e = x.row_start[row]; e < end; ++e) {
    const double* v = scorer.v + static_cast<int64_t>(x.column[e]) * K;
    const double a = x.value[e];
    for (int k = 0; k < K; ++k) z[k] += a * v[k];
  }
}

void LogisticData::Scatter(int64_t i, const double* r, VectorXd* gradient) const {
  const data::SparseMatrix& x = dataset_->x;
  const int32_t row = rows_[i];
  const int64_t end = x.row_start[row + 1];
  double* g = gradient->data();
  if (scores_ == 1) {
    for (int64_t e = x.row_start[row]; e < end; ++e) g[x.column[e]] += x.value[e] * r[0];
    return;
  }
  const int K = scores_;
  for (int64_t e = x.row_start[row]; e < end; ++e) {
    double* out = g + static_cast<int64_t>(x.column[e]) * K;
    const double a = x.value[e];
    for (int k = 0; k < K; ++k) out[k] += a * r[k];
  }
}

void LogisticData::FinishScatter(const VectorXd& residual_sum, VectorXd* gradient) const {
  const int K = scores_;
  if (!standardization_.identity()) {
    for (int64_t j = 0; j < features_; ++j) {
      for (int k = 0; k < K; ++k) {
        double& g = (*gradient)[j * K + k];
        g = (g - standardization_.mean[j] * residual_sum[k]) / standardization_.deviation[j];
      }
    }
  }
  if (!intercept_) return;
  if (K == 1) {
    (*gradient)[penalized()] = residual_sum[0];
  } else {
    gradient->tail(K - 1) = residual_sum.tail(K - 1);
  }
}

absl::StatusOr<double> LogisticData::Loss(const VectorXd& w, VectorXd* gradient, const base::StopToken& stop) const {
  const int K = scores_;
  const Scorer scorer = MakeScorer(w);
  if (gradient != nullptr) *gradient = VectorXd::Zero(dim_);
  BlockedSum total;
  std::vector<BlockedSum> residual_sum(K);
  std::vector<double> z(K);
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
      z[label] -= 1.0;
    }
    if (gradient == nullptr) continue;
    Scatter(i, z.data(), gradient);
    for (int k = 0; k < K; ++k) residual_sum[k].Add(z[k]);
  }
  if (gradient != nullptr) {
    VectorXd sums(K);
    for (int k = 0; k < K; ++k) sums[k] = residual_sum[k].Total();
    FinishScatter(sums, gradient);
  }
  return total.Total();
}

absl::StatusOr<int64_t> LogisticData::CountCorrect(const VectorXd& w, const base::StopToken& stop) const {
  const Scorer scorer = MakeScorer(w);
  std::vector<double> z(scores_);
  int64_t correct = 0;
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(Work(i)));
    Scores(scorer, i, z.data());
    int32_t best = 0;
    if (scores_ == 1) {
      best = z[0] > 0.0 ? 1 : 0;
    } else {
      best = static_cast<int32_t>(std::max_element(z.begin(), z.end()) - z.begin());
    }
    correct += best == dataset_->label[rows_[i]] ? 1 : 0;
  }
  return correct;
}

absl::StatusOr<LogisticData::Curvature> LogisticData::CurvatureAt(const VectorXd& w,
                                                                  const base::StopToken& stop) const {
  const Scorer scorer = MakeScorer(w);
  Curvature curvature;
  curvature.probability.resize(scores_, rows());
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(Work(i)));
    double* z = curvature.probability.col(i).data();
    Scores(scorer, i, z);
    if (scores_ == 1) {
      z[0] = Sigmoid(z[0]);
    } else {
      SoftmaxLoss(scores_, 0, z);
    }
  }
  return curvature;
}

absl::StatusOr<VectorXd> LogisticData::HessianVector(const Curvature& curvature, const VectorXd& v,
                                                     const base::StopToken& stop) const {
  const int K = scores_;
  const Scorer scorer = MakeScorer(v);
  VectorXd out = VectorXd::Zero(dim_);
  std::vector<BlockedSum> residual_sum(K);
  std::vector<double> r(K);
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * Work(i)));
    Scores(scorer, i, r.data());
    const double* prob = curvature.probability.col(i).data();
    if (K == 1) {
      r[0] *= prob[0] * (1.0 - prob[0]);
    } else {
      double mean = 0.0;
      for (int k = 0; k < K; ++k) mean += prob[k] * r[k];
      for (int k = 0; k < K; ++k) r[k] = prob[k] * (r[k] - mean);
    }
    Scatter(i, r.data(), &out);
    for (int k = 0; k < K; ++k) residual_sum[k].Add(r[k]);
  }
  VectorXd sums(K);
  for (int k = 0; k < K; ++k) sums[k] = residual_sum[k].Total();
  FinishScatter(sums, &out);
  return out;
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
      d[k] = prob * (1.0 - prob);
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
      const double scale = standardization_.deviation[j];
      for (int k = 0; k < K; ++k) {
        const double s = squares[j * K + k] - 2.0 * m * firsts[j * K + k] + m * m * totals[k];
        squares[j * K + k] = std::max(s, 0.0) / (scale * scale);
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

Metrics EvaluateMetrics(const LogisticData& data, const VectorXd& w) {
  const double n = static_cast<double>(data.rows());
  return {data.Loss(w, nullptr).value() / n, static_cast<double>(data.CountCorrect(w).value()) / n};
}

}  // namespace luthier::linear
