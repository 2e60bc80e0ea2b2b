#include "lib/suggest/acquisition.h"

#include <cmath>

#include "lib/math/special_functions.h"

namespace luthier::suggest {

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

AcquisitionTerm ImprovementAcquisition::Term(double mean, double variance) const {
  const double deviation = std::sqrt(variance);
  return logarithm_ ? LogExpectedImprovement(mean, deviation, best_) : ExpectedImprovement(mean, deviation, best_);
}

Eigen::VectorXd ImprovementAcquisition::Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const {
  const gp::Posterior posterior = model_->Predict(u);
  Eigen::VectorXd values(u.rows());
  for (Eigen::Index i = 0; i < u.rows(); ++i) values(i) = Term(posterior.mean(i), posterior.variance(i)).value;
  return values;
}

double ImprovementAcquisition::Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  const gp::PointPosterior p = model_->PredictWithGradient(u);
  const AcquisitionTerm term = Term(p.mean, p.variance);
  // dsigma = dvariance / (2 sigma).
  *gradient = term.by_mean * p.mean_gradient + (0.5 * term.by_deviation / std::sqrt(p.variance)) * p.variance_gradient;
  return term.value;
}

}  // namespace luthier::suggest
