#include "lib/search/bo/acquisition/acquisition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/special_functions.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

AcquisitionTerm ExpectedImprovement(double mean, double deviation, double best) {
  const double z = (mean - best) / deviation;
  const double density = math::NormalDensity(z);
  const double cdf = math::NormalCdf(z);
  // Left of -1 the sum z Phi + phi cancels; LogH does not.
  const double h = z > -1.0 ? density + z * cdf : std::exp(math::LogH(z).value);
  return {deviation * h, cdf, density};
}

AcquisitionTerm LogExpectedImprovement(double mean, double deviation, double best) {
  const double z = (mean - best) / deviation;
  const math::LogHValue h = math::LogH(z);
  return {std::log(deviation) + h.value, h.slope / deviation, (1.0 - z * h.slope) / deviation};
}

AcquisitionTerm ProbabilityOfImprovement(double mean, double deviation, double best) {
  const double z = (mean - best) / deviation;
  const double slope = math::NormalDensity(z) / deviation;
  // Far out the density is 0 and z may be infinite.
  return {math::NormalCdf(z), slope, slope > 0.0 ? -z * slope : slope};
}

AcquisitionTerm LogProbabilityOfImprovement(double mean, double deviation, double best) {
  const double z = (mean - best) / deviation;
  const double slope = math::InverseMills(z) / deviation;
  return {math::LogNormalCdf(z), slope, slope > 0.0 ? -z * slope : slope};
}

AcquisitionTerm UpperConfidenceBound(double mean, double deviation, double root_beta) {
  return {mean + root_beta * deviation, 1.0, root_beta};
}

double UpperConfidenceAdvantage(double mean_a, double deviation_a, double mean_b, double deviation_b,
                                double root_beta) {
  return (mean_a - mean_b) + root_beta * (deviation_a - deviation_b);
}

double RootBeta(BetaRule rule, int d, int64_t t, double constant_beta) {
  LUTHIER_CHECK(d >= 1 && t >= 1 && constant_beta >= 0.0);
  const double dimension = d;
  const double time = static_cast<double>(t);
  switch (rule) {
    case BetaRule::kKandasamy15:
      return std::sqrt(0.2 * dimension * std::log(2.0 * time));
    case BetaRule::kDragonfly:
      return std::sqrt(0.5 * dimension * std::log(2.0 * dimension * time + 1.0));
    case BetaRule::kK17Code:
      return std::sqrt(5.0 * dimension * std::log(2.0 * dimension * time + 1.0));
    case BetaRule::kConstant:
      break;
  }
  return std::sqrt(constant_beta);
}

AcquisitionTerm EvaluateTerm(const AcquisitionSettings& settings, double mean, double deviation, double best) {
  const double level = best + settings.margin;
  switch (settings.kind) {
    case AcquisitionKind::kExpectedImprovement:
      return ExpectedImprovement(mean, deviation, level);
    case AcquisitionKind::kLogExpectedImprovement:
      return LogExpectedImprovement(mean, deviation, level);
    case AcquisitionKind::kProbabilityOfImprovement:
      return ProbabilityOfImprovement(mean, deviation, level);
    case AcquisitionKind::kLogProbabilityOfImprovement:
      return LogProbabilityOfImprovement(mean, deviation, level);
    case AcquisitionKind::kUpperConfidenceBound:
      break;
  }
  return UpperConfidenceBound(mean, deviation, settings.root_beta);
}

bool IsLogarithm(AcquisitionKind kind) {
  return kind == AcquisitionKind::kLogExpectedImprovement || kind == AcquisitionKind::kLogProbabilityOfImprovement;
}

namespace {

// Returns ln mean exp of values(0 … count-1), and sets `shares` to the share of each in the sum.
double LogMeanExp(const VectorXd& values, VectorXd* shares) {
  const double top = values.maxCoeff<Eigen::PropagateNaN>();
  if (!std::isfinite(top)) {
    // All -infinity, or an infinity or NaN that the average inherits.
    if (shares != nullptr) shares->setZero(values.size());
    return top;
  }
  const VectorXd weights = (values.array() - top).exp();
  const double sum = weights.sum();
  if (shares != nullptr) *shares = weights / sum;
  return top + std::log(sum / static_cast<double>(values.size()));
}

}  // namespace

VectorXd AverageStates(const MatrixXd& values, bool logarithm) {
  LUTHIER_CHECK(values.cols() >= 1);
  if (values.cols() == 1) return values.col(0);
  if (!logarithm) return values.rowwise().mean();
  VectorXd average(values.rows());
  for (Index i = 0; i < values.rows(); ++i) average(i) = LogMeanExp(values.row(i).transpose(), nullptr);
  return average;
}

double AverageStates(const VectorXd& values, const MatrixXd& gradients, bool logarithm, VectorXd* gradient) {
  LUTHIER_CHECK(values.size() >= 1 && gradients.cols() == values.size());
  if (values.size() == 1) {
    *gradient = gradients.col(0);
    return values(0);
  }
  if (!logarithm) {
    *gradient = gradients.rowwise().mean();
    return values.mean();
  }
  VectorXd shares;
  const double average = LogMeanExp(values, &shares);
  gradient->setZero(gradients.rows());
  for (Index s = 0; s < values.size(); ++s) {
    // A state of no weight may have an infinite slope.
    if (shares(s) > 0.0) *gradient += shares(s) * gradients.col(s);
  }
  return average;
}

ModelAcquisition::ModelAcquisition(std::vector<ModelState> states, const AcquisitionSettings& settings)
    : states_(std::move(states)), settings_(settings) {
  LUTHIER_CHECK(!states_.empty());
  for (const ModelState& state : states_) {
    LUTHIER_CHECK(state.regression != nullptr && state.regression->columns() == states_[0].regression->columns());
  }
}

VectorXd ModelAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  MatrixXd values(u.rows(), static_cast<Index>(states_.size()));
  for (Index s = 0; s < values.cols(); ++s) {
    const ModelState& state = states_[static_cast<size_t>(s)];
    const gp::Posterior posterior = state.regression->Predict(u);
    for (Index i = 0; i < u.rows(); ++i) {
      values(i, s) = EvaluateTerm(settings_, posterior.mean(i), std::sqrt(posterior.variance(i)), state.best).value;
    }
  }
  return AverageStates(values, IsLogarithm(settings_.kind));
}

double ModelAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  VectorXd values(static_cast<Index>(states_.size()));
  MatrixXd gradients(u.size(), values.size());
  for (Index s = 0; s < values.size(); ++s) {
    const ModelState& state = states_[static_cast<size_t>(s)];
    const gp::PointPosterior p = state.regression->PredictWithGradient(u);
    const double deviation = std::sqrt(p.variance);
    const AcquisitionTerm term = EvaluateTerm(settings_, p.mean, deviation, state.best);
    values(s) = term.value;
    // dsigma = dvariance / (2 sigma).
    gradients.col(s) = term.by_mean * p.mean_gradient + (0.5 * term.by_deviation / deviation) * p.variance_gradient;
  }
  return AverageStates(values, gradients, IsLogarithm(settings_.kind), gradient);
}

Index ModelAcquisition::BestRow(const Eigen::Ref<const MatrixXd>& u) const {
  Index best = -1;
  if (settings_.kind != AcquisitionKind::kUpperConfidenceBound) {
    const VectorXd values = Values(u);
    for (Index i = 0; i < u.rows(); ++i) {
      if (!std::isnan(values(i)) && (best < 0 || values(i) > values(best))) best = i;
    }
    return best;
  }
  // UCB is linear in means and deviations, so their averages over states will do.
  VectorXd mean = VectorXd::Zero(u.rows()), deviation = VectorXd::Zero(u.rows());
  for (const ModelState& state : states_) {
    const gp::Posterior posterior = state.regression->Predict(u);
    mean += posterior.mean;
    deviation += posterior.variance.cwiseSqrt();
  }
  for (Index i = 0; i < u.rows(); ++i) {
    if (std::isnan(mean(i)) || std::isnan(deviation(i))) continue;
    if (best < 0 ||
        UpperConfidenceAdvantage(mean(i), deviation(i), mean(best), deviation(best), settings_.root_beta) > 0.0) {
      best = i;
    }
  }
  return best;
}

}  // namespace luthier::search
