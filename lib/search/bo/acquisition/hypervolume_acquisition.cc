#include "lib/search/bo/acquisition/hypervolume_acquisition.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kDrawnVarianceFloor = 1e-12;  // In units of s_f^2, as in gp::Regression.

}  // namespace

absl::StatusOr<std::optional<MetricPosterior>> MetricPosterior::Draw(const gp::Regression* regression,
                                                                     const MatrixXd& points, const MatrixXd& normals,
                                                                     const base::StopToken& stop) {
  LUTHIER_CHECK(points.rows() >= 1 && points.rows() == normals.rows() && points.cols() == regression->columns());
  MetricPosterior drawn(regression);
  LUTHIER_ASSIGN_OR_RETURN(const MatrixXd covariance, regression->JointCovariance(points, stop));
  math::CholeskyOptions options;
  options.jitter_scale = regression->hyperparameters().signal_variance;
  LUTHIER_ASSIGN_OR_RETURN(std::optional<math::Cholesky> factor, math::Cholesky::Factor(covariance, options, stop));
  if (!factor.has_value()) return std::nullopt;
  drawn.factor_ = *std::move(factor);
  drawn.points_ = regression->kernel().Scale(points);
  regression->CrossCovariance(drawn.points_, &drawn.projection_);
  if (regression->rows() > 0) {
    regression->factor().SolveLowerInPlace(drawn.projection_);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(drawn.projection_.size() * regression->rows()));
    regression->factor().SolveLowerTransposedInPlace(drawn.projection_);
  }
  const MatrixXd deltas = drawn.factor_.lower().triangularView<Eigen::Lower>() * normals;
  drawn.values_ = deltas.colwise() + regression->PredictMean(points);
  drawn.weights_ = normals;
  drawn.factor_.SolveLowerTransposedInPlace(drawn.weights_);
  if (!drawn.values_.allFinite() || !drawn.weights_.allFinite()) return std::nullopt;
  return std::optional<MetricPosterior>(std::move(drawn));
}

void MetricPosterior::Predict(const Eigen::Ref<const MatrixXd>& u, MatrixXd* mean, VectorXd* deviation) const {
  const gp::Posterior posterior = regression_->Predict(u);
  if (points_.rows() == 0) {
    *mean = posterior.mean;
    *deviation = posterior.variance.cwiseSqrt();
    return;
  }
  const MatrixXd scaled = regression_->kernel().Scale(u);
  MatrixXd of_points, of_rows;
  regression_->kernel().Cross(points_, scaled, &of_points);
  regression_->CrossCovariance(scaled, &of_rows);
  of_points.noalias() -= projection_.transpose() * of_rows;  // cov(f(P), f(u) | results)
  *mean = (of_points.transpose() * weights_).colwise() + posterior.mean;
  factor_.SolveLowerInPlace(of_points);
  const double floor = kDrawnVarianceFloor * regression_->hyperparameters().signal_variance;
  *deviation = (posterior.variance - of_points.colwise().squaredNorm().transpose()).cwiseMax(floor).cwiseSqrt();
}

MetricPosterior::AtPoint MetricPosterior::PredictWithGradient(const VectorXd& u) const {
  const gp::PointPosterior posterior = regression_->PredictWithGradient(u);
  AtPoint at;
  if (points_.rows() == 0) {
    at.mean = VectorXd::Constant(1, posterior.mean);
    at.deviation = std::sqrt(posterior.variance);
    at.mean_gradient = posterior.mean_gradient;
    at.deviation_gradient = posterior.variance_gradient / (2.0 * at.deviation);
    return at;
  }
  const Eigen::RowVectorXd scaled = u.transpose().cwiseProduct(regression_->kernel().inverse_lengthscales());
  VectorXd of_points, of_rows;
  MatrixXd slopes, slopes_of_rows;
  regression_->kernel().PointCross(points_, scaled, &of_points, &slopes);
  regression_->PointCovariance(scaled, &of_rows, &slopes_of_rows);
  of_points.noalias() -= projection_.transpose() * of_rows;
  slopes.noalias() -= projection_.transpose() * slopes_of_rows;
  at.mean = (weights_.transpose() * of_points).array() + posterior.mean;
  at.mean_gradient = (slopes.transpose() * weights_).colwise() + posterior.mean_gradient;
  VectorXd solved = of_points;
  factor_.SolveLowerInPlace(solved);
  const double floor = kDrawnVarianceFloor * regression_->hyperparameters().signal_variance;
  const double variance = posterior.variance - solved.squaredNorm();
  at.deviation = std::sqrt(std::max(variance, floor));
  at.deviation_gradient = VectorXd::Zero(u.size());
  if (!(variance > floor)) return at;
  factor_.SolveLowerTransposedInPlace(solved);
  at.deviation_gradient = (posterior.variance_gradient - 2.0 * slopes.transpose() * solved) / (2.0 * at.deviation);
  return at;
}

HypervolumeAcquisition::HypervolumeAcquisition(std::vector<MetricPosterior> posteriors,
                                               std::vector<HypervolumeImprovement> improvements)
    : posteriors_(std::move(posteriors)), improvements_(std::move(improvements)) {
  LUTHIER_CHECK(!posteriors_.empty() && !improvements_.empty());
  for (const MetricPosterior& posterior : posteriors_) {
    LUTHIER_CHECK(posterior.draws() == static_cast<Index>(improvements_.size()));
  }
  for (const HypervolumeImprovement& improvement : improvements_) {
    LUTHIER_CHECK(improvement.objectives() == static_cast<Index>(posteriors_.size()));
  }
}

VectorXd HypervolumeAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  const auto m = static_cast<Index>(posteriors_.size()), draws = static_cast<Index>(improvements_.size());
  std::vector<MatrixXd> means(posteriors_.size());
  MatrixXd deviations(m, u.rows());
  for (Index j = 0; j < m; ++j) {
    VectorXd deviation;
    posteriors_[static_cast<size_t>(j)].Predict(u, &means[static_cast<size_t>(j)], &deviation);
    deviations.row(j) = deviation.transpose();
  }
  VectorXd values(u.rows());
  MatrixXd of_draws(m, draws);
  for (Index i = 0; i < u.rows(); ++i) {
    for (Index j = 0; j < m; ++j) of_draws.row(j) = means[static_cast<size_t>(j)].row(i);
    values(i) = Average(of_draws, deviations.col(i), nullptr, nullptr);
  }
  return values;
}

// A draw that promises next to nothing beside another one needs no logarithm of its own: most draws of most points.
double HypervolumeAcquisition::Average(const MatrixXd& means, const VectorXd& deviation, MatrixXd* by_means,
                                       VectorXd* by_deviation) const {
  const auto draws = static_cast<Index>(improvements_.size());
  VectorXd of_mean, of_deviation, values(draws);
  MatrixXd slopes(means.rows(), draws), spreads(means.rows(), draws);
  const auto evaluate = [&](auto evaluate_one) {
    for (Index f = 0; f < draws; ++f) {
      values(f) = evaluate_one(improvements_[static_cast<size_t>(f)], means.col(f));
      if (by_means == nullptr) continue;
      slopes.col(f) = of_mean;
      spreads.col(f) = of_deviation;
    }
  };
  VectorXd* const slope = by_means != nullptr ? &of_mean : nullptr;
  evaluate([&](const HypervolumeImprovement& improvement, const VectorXd& mean) {
    return improvement.Plain(mean, deviation, slope, &of_deviation);
  });
  const double sum = values.sum();
  if (sum > kLargeImprovement && std::isfinite(sum)) {
    if (by_means != nullptr) {
      *by_means = slopes / sum;
      *by_deviation = spreads.rowwise().sum() / sum;
    }
    return std::log(sum / static_cast<double>(draws));
  }
  evaluate([&](const HypervolumeImprovement& improvement, const VectorXd& mean) {
    return improvement.ByLogarithms(mean, deviation, slope, &of_deviation);
  });
  if (by_means == nullptr) return AverageStates(values.transpose(), /*logarithm=*/true)(0);
  // The average's derivative by the value of each draw is that draw's share.
  VectorXd shares;
  const double average = AverageStates(values, MatrixXd::Identity(draws, draws), /*logarithm=*/true, &shares);
  by_means->setZero(means.rows(), draws);
  by_deviation->setZero(means.rows());
  for (Index f = 0; f < draws; ++f) {
    if (!(shares(f) > 0.0)) continue;  // Its slope may be infinite.
    by_means->col(f) = shares(f) * slopes.col(f);
    *by_deviation += shares(f) * spreads.col(f);
  }
  return average;
}

double HypervolumeAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  const auto m = static_cast<Index>(posteriors_.size()), draws = static_cast<Index>(improvements_.size());
  std::vector<MetricPosterior::AtPoint> at;
  VectorXd deviation(m), by_deviation;
  MatrixXd means(m, draws), by_means;
  for (Index j = 0; j < m; ++j) {
    at.push_back(posteriors_[static_cast<size_t>(j)].PredictWithGradient(u));
    deviation(j) = at.back().deviation;
    means.row(j) = at.back().mean.transpose();
  }
  const double value = Average(means, deviation, &by_means, &by_deviation);
  gradient->setZero(u.size());
  if (!std::isfinite(value)) return value;
  for (Index j = 0; j < m; ++j) {
    const MetricPosterior::AtPoint& of = at[static_cast<size_t>(j)];
    *gradient += of.mean_gradient * by_means.row(j).transpose() + by_deviation(j) * of.deviation_gradient;
  }
  return value;
}

}  // namespace luthier::search
