#include "lib/search/bo/acquisition/fantasies.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/math/cholesky.h"
#include "lib/math/sobol.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kVarianceFloor = 1e-12;  // In units of s_f^2, as in gp::Regression.
constexpr Index kChunk = 256;

// Draws q x count outcomes minus their means, from their covariance.
absl::StatusOr<std::optional<MatrixXd>> Draw(const MatrixXd& covariance, double signal, int count,
                                             base::RandomStream random, const base::StopToken& stop) {
  math::CholeskyOptions options;
  options.jitter_scale = signal;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor,
                           math::Cholesky::Factor(covariance, options, stop));
  if (!factor.has_value()) return std::nullopt;
  const Index q = covariance.rows();
  const math::SobolSequence sobol(static_cast<int>(q), random.NextU64(), "bo/fantasies/sobol");
  MatrixXd normals(q, count);
  for (int f = 0; f < count; ++f) {
    const VectorXd uniforms = sobol.Point(static_cast<uint64_t>(f));
    for (Index j = 0; j < q; ++j) normals(j, f) = base::NormalQuantile(std::clamp(uniforms(j), 1e-300, 1.0 - 1e-16));
  }
  return std::optional<MatrixXd>(factor->lower().triangularView<Eigen::Lower>() * normals);
}

}  // namespace

absl::StatusOr<std::optional<Fantasies>> Fantasize(gp::Regression* regression, const MatrixXd& open,
                                                   const FantasyRecord& incumbent, int count, const AskKey& key,
                                                   uint32_t state, const base::StopToken& stop) {
  const Index q = open.rows();
  LUTHIER_CHECK(q >= 1 && open.cols() == regression->columns() && count >= 1);
  const gp::Hyperparameters theta = regression->hyperparameters();
  LUTHIER_ASSIGN_OR_RETURN(MatrixXd covariance, regression->JointCovariance(open, stop));
  covariance.diagonal().array() += theta.noise_variance;
  const VectorXd mean = regression->PredictMean(open);
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<MatrixXd> deltas,
                           Draw(covariance, theta.signal_variance, count, key.Stream("bo/fantasies", state), stop));
  if (!deltas.has_value() || !mean.allFinite()) return std::nullopt;
  for (Index j = 0; j < q; ++j) {
    LUTHIER_ASSIGN_OR_RETURN(const bool appended, regression->Append(open.row(j).transpose(), mean(j), stop));
    if (appended) continue;
    regression->PopBack(static_cast<int>(j));
    return std::nullopt;
  }
  // Subtracts the mean from the rows that are values.
  VectorXd residual = regression->Targets();
  const Index rows = residual.size();
  for (Index i = 0; i < rows; ++i) {
    const bool slope = i < static_cast<Index>(regression->observed().rows.size()) &&
                       regression->observed().rows[static_cast<size_t>(i)].slope >= 0;
    if (!slope) residual(i) -= theta.mean;
  }
  Fantasies fantasies;
  fantasies.regression = regression;
  fantasies.weights = residual.replicate(1, count);
  fantasies.weights.bottomRows(q) += *deltas;
  regression->factor().SolveLowerInPlace(fantasies.weights);
  regression->factor().SolveLowerTransposedInPlace(fantasies.weights);
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (incumbent.contenders == nullptr) {
    const VectorXd highest = (deltas->colwise() + mean).colwise().maxCoeff().transpose();
    fantasies.best = highest.cwiseMax(incumbent.best);
  } else {
    MatrixXd points(incumbent.contenders->rows() + q, open.cols());
    points << *incumbent.contenders, open;
    MatrixXd cross;
    regression->CrossCovariance(regression->kernel().Scale(points), &cross);
    const MatrixXd means = cross.transpose() * fantasies.weights;
    fantasies.best = (means.colwise().maxCoeff().transpose().array() + theta.mean).matrix();
  }
  if (!fantasies.weights.allFinite() || !fantasies.best.allFinite()) {
    regression->PopBack(static_cast<int>(q));
    return std::nullopt;
  }
  return std::optional<Fantasies>(std::move(fantasies));
}

FantasyAcquisition::FantasyAcquisition(std::vector<Fantasies> posteriors, const AcquisitionSettings& settings)
    : posteriors_(std::move(posteriors)), settings_(settings) {
  LUTHIER_CHECK(!posteriors_.empty() && settings.kind != AcquisitionKind::kUpperConfidenceBound);
  for (const Fantasies& p : posteriors_) {
    LUTHIER_CHECK(p.regression != nullptr && p.weights.rows() == p.regression->rows() && p.weights.cols() >= 1 &&
                  p.weights.cols() == p.best.size() && p.best.size() == posteriors_[0].best.size());
  }
}

VectorXd FantasyAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  const Index m = posteriors_[0].best.size();
  MatrixXd values(u.rows(), m * static_cast<Index>(posteriors_.size()));
  MatrixXd cross;
  for (size_t s = 0; s < posteriors_.size(); ++s) {
    const Fantasies& p = posteriors_[s];
    const double prior = p.regression->hyperparameters().signal_variance;
    for (Index begin = 0; begin < u.rows(); begin += kChunk) {
      const Index q = std::min(kChunk, u.rows() - begin);
      p.regression->CrossCovariance(p.regression->kernel().Scale(u.middleRows(begin, q)), &cross);
      const MatrixXd means = ((cross.transpose() * p.weights).array() + p.regression->hyperparameters().mean).matrix();
      p.regression->factor().SolveLowerInPlace(cross);
      for (Index i = 0; i < q; ++i) {
        const double deviation = std::sqrt(std::max(prior - cross.col(i).squaredNorm(), kVarianceFloor * prior));
        for (Index f = 0; f < m; ++f) {
          values(begin + i, static_cast<Index>(s) * m + f) =
              EvaluateTerm(settings_, means(i, f), deviation, p.best(f)).value;
        }
      }
    }
  }
  return AverageStates(values, IsLogarithm(settings_.kind));
}

double FantasyAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  const Index m = posteriors_[0].best.size();
  VectorXd values(m * static_cast<Index>(posteriors_.size()));
  MatrixXd gradients(u.size(), values.size());
  for (size_t s = 0; s < posteriors_.size(); ++s) {
    const Fantasies& p = posteriors_[s];
    const double prior = p.regression->hyperparameters().signal_variance;
    const gp::PointPosterior believed = p.regression->PredictWithGradient(u);
    const double deviation = std::sqrt(std::max(believed.variance, kVarianceFloor * prior));
    VectorXd k;
    MatrixXd jacobian;
    p.regression->PointCovariance(u.transpose().cwiseProduct(p.regression->kernel().inverse_lengthscales()), &k,
                                  &jacobian);
    const VectorXd means = p.weights.transpose() * k;
    const MatrixXd mean_gradients = jacobian.transpose() * p.weights;
    for (Index f = 0; f < m; ++f) {
      const AcquisitionTerm term =
          EvaluateTerm(settings_, means(f) + p.regression->hyperparameters().mean, deviation, p.best(f));
      const Index at = static_cast<Index>(s) * m + f;
      values(at) = term.value;
      gradients.col(at) =
          term.by_mean * mean_gradients.col(f) + (0.5 * term.by_deviation / deviation) * believed.variance_gradient;
    }
  }
  return AverageStates(values, gradients, IsLogarithm(settings_.kind), gradient);
}

}  // namespace luthier::search
