#include "lib/search/bo/acquisition/pending_information.h"

#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kSearchMargin = 1e-6;

}  // namespace

double LeastInformation(const gp::Regression& results, const Eigen::Ref<const MatrixXd>& open, double root_beta,
                        bool noisy) {
  LUTHIER_CHECK(open.rows() >= 1);
  const gp::Posterior posterior = results.Predict(open);
  const VectorXd deviation = posterior.variance.cwiseSqrt();
  Index best = 0;
  (posterior.mean + root_beta * deviation).maxCoeff(&best);
  const double least = kLeastInformation * deviation(best);
  return noisy ? least : std::hypot(least, std::sqrt(results.hyperparameters().noise_variance));
}

PendingInformation::PendingInformation(const AcquisitionFunction* a, std::vector<InformationLevel> states)
    : a_(a), states_(std::move(states)) {
  LUTHIER_CHECK(a_ != nullptr && !states_.empty());
  for (const InformationLevel& state : states_) LUTHIER_CHECK(state.regression != nullptr && state.deviation >= 0.0);
}

VectorXd PendingInformation::Information(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd information = VectorXd::Zero(u.rows());
  for (const InformationLevel& state : states_) {
    information += state.regression->Predict(u).variance.cwiseSqrt() / state.deviation;
  }
  return information / static_cast<double>(states_.size());
}

VectorXd PendingInformation::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd values = a_->Values(u);
  const VectorXd information = Information(u);
  for (Index i = 0; i < u.rows(); ++i) {
    if (!(information(i) >= 1.0)) values(i) = -std::numeric_limits<double>::infinity();
  }
  return values;
}

double PendingInformation::Value(const VectorXd& u, VectorXd* gradient) const {
  if (Information(u.transpose())(0) >= (gradient == nullptr ? 1.0 : 1.0 + kSearchMargin)) return a_->Value(u, gradient);
  if (gradient != nullptr) gradient->setZero(u.size());
  return -std::numeric_limits<double>::infinity();
}

}  // namespace luthier::search
