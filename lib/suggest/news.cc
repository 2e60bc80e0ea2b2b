#include "lib/suggest/news.h"

#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kSearchMargin = 1e-6;

}  // namespace

double LeastNews(const gp::Regression& results, const Eigen::Ref<const MatrixXd>& open, double root_beta, bool noisy) {
  LUTHIER_CHECK(open.rows() >= 1);
  const gp::Posterior posterior = results.Predict(open);
  const VectorXd deviation = posterior.variance.cwiseSqrt();
  Index best = 0;
  (posterior.mean + root_beta * deviation).maxCoeff(&best);
  const double least = kLeastNews * deviation(best);
  return noisy ? least : std::hypot(least, std::sqrt(results.hyperparameters().noise_variance));
}

NewsAcquisition::NewsAcquisition(const AcquisitionFunction* a, std::vector<NewsLevel> states)
    : a_(a), states_(std::move(states)) {
  LUTHIER_CHECK(a_ != nullptr && !states_.empty());
  for (const NewsLevel& state : states_) LUTHIER_CHECK(state.regression != nullptr && state.deviation >= 0.0);
}

VectorXd NewsAcquisition::News(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd news = VectorXd::Zero(u.rows());
  for (const NewsLevel& state : states_) {
    news += state.regression->Predict(u).variance.cwiseSqrt() / state.deviation;
  }
  return news / static_cast<double>(states_.size());
}

VectorXd NewsAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd values = a_->Values(u);
  const VectorXd news = News(u);
  for (Index i = 0; i < u.rows(); ++i) {
    if (!(news(i) >= 1.0)) values(i) = -std::numeric_limits<double>::infinity();
  }
  return values;
}

double NewsAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (News(u.transpose())(0) >= (gradient == nullptr ? 1.0 : 1.0 + kSearchMargin)) return a_->Value(u, gradient);
  if (gradient != nullptr) gradient->setZero(u.size());
  return -std::numeric_limits<double>::infinity();
}

}  // namespace luthier::suggest
