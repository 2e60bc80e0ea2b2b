#include "lib/search/bo/acquisition/feasible_acquisition.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kNegligible = -14.0;  // Logarithm of an improvement that is too small to count.
constexpr double kTiny = 1e-300;
constexpr double kDoubtWeight = 20.0;

// Returns c(t) of the header, and sets its slope.
double Compress(double t, double* slope) {
  *slope = 1.0;
  if (t >= kNegligible) return t;
  *slope = 1.0 / (1.0 + kNegligible - t);
  return kNegligible - std::log1p(kNegligible - t);
}

}  // namespace

FeasibleAcquisition::FeasibleAcquisition(const AcquisitionFunction* a, const FeasibilityModel* model,
                                         study::BoAcquisition kind, double failure_value,
                                         std::vector<OutcomeBound> bounds)
    : a_(a),
      model_(model),
      logarithm_(kind == study::BoAcquisition::kLogEi || kind == study::BoAcquisition::kLogPi),
      bound_(kind == study::BoAcquisition::kUcb || kind == study::BoAcquisition::kTs),
      failure_value_(failure_value),
      bounds_(std::move(bounds)) {}

FeasibleAcquisition::Combined FeasibleAcquisition::Combine(double a, double failures, double bounds) const {
  Combined result;
  if (bound_ && a_ != nullptr) {
    const double p = std::exp(failures + bounds);
    result.by_a = p;
    result.by_failures = result.by_bounds = p * (a - failure_value_);
    result.value = failure_value_ + p * (a - failure_value_);
    return result;
  }
  double weight = 1.0;
  if (model_ != nullptr) {
    const double doubtful = std::log(model_->doubtful());
    weight = failures < doubtful ? kDoubtWeight : 1.0;
    if (weight > 1.0) failures += (weight - 1.0) * (failures - doubtful);
  }
  const double log = bounds_.empty() ? failures : failures + bounds;
  result.by_failures = weight;
  result.by_bounds = 1.0;
  if (a_ == nullptr) {
    result.value = log;
  } else if (logarithm_) {
    result.value = Compress(a, &result.by_a) + log;
  } else {
    const double floored = std::max(a, kTiny);  // EI may underflow.
    result.value = std::exp(Compress(std::log(floored), &result.by_a) + log);
    result.by_a = a > kTiny ? result.value * result.by_a / a : 0.0;
    result.by_failures = result.value * weight;
    result.by_bounds = result.value;
  }
  return result;
}

VectorXd FeasibleAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd values = VectorXd::Zero(u.rows()), failures = values, bounds = values;
  if (a_ != nullptr) values = a_->Values(u);
  if (model_ != nullptr) failures = model_->classifier().LogProbabilities(u);
  if (!bounds_.empty()) bounds = LogProbabilitiesWithin(bounds_, u);
  for (Index i = 0; i < values.size(); ++i) {
    if (std::isfinite(values(i))) values(i) = Combine(values(i), failures(i), bounds(i)).value;
  }
  return values;
}

double FeasibleAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  double a = 0.0;
  gradient->setZero(u.size());
  if (a_ != nullptr) a = a_->Value(u, gradient);
  if (!std::isfinite(a)) return a;
  VectorXd by_failures = VectorXd::Zero(u.size()), by_bounds = by_failures;
  const double failures = model_ != nullptr ? model_->classifier().LogProbability(u, &by_failures) : 0.0;
  const double bounds = bounds_.empty() ? 0.0 : LogProbabilityWithin(bounds_, u, &by_bounds);
  const Combined combined = Combine(a, failures, bounds);
  *gradient = combined.by_a * *gradient + combined.by_failures * by_failures;
  if (!bounds_.empty()) *gradient += combined.by_bounds * by_bounds;
  return combined.value;
}

double FailureValue(VectorXd outputs) {
  LUTHIER_CHECK(outputs.size() >= 1);
  std::sort(outputs.data(), outputs.data() + outputs.size());
  return outputs((outputs.size() - 1) / 4);
}

}  // namespace luthier::search
