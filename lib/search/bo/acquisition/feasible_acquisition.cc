#include "lib/search/bo/acquisition/feasible_acquisition.h"

#include <algorithm>
#include <cmath>

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
                                         study::BoAcquisition kind, double failure_value)
    : a_(a),
      model_(model),
      logarithm_(kind == study::BoAcquisition::kLogEi || kind == study::BoAcquisition::kLogPi),
      bound_(kind == study::BoAcquisition::kUcb || kind == study::BoAcquisition::kTs),
      failure_value_(failure_value) {}

double FeasibleAcquisition::Combine(double a, double log, double* by_a, double* by_log) const {
  if (bound_) {
    const double p = std::exp(log);
    *by_a = p;
    *by_log = p * (a - failure_value_);
    return failure_value_ + p * (a - failure_value_);
  }
  const double doubtful = std::log(model_->doubtful());
  const double weight = log < doubtful ? kDoubtWeight : 1.0;
  if (weight > 1.0) log += (weight - 1.0) * (log - doubtful);
  if (logarithm_) {
    *by_log = weight;
    return Compress(a, by_a) + log;
  }
  const double floored = std::max(a, kTiny);  // EI may underflow.
  const double value = std::exp(Compress(std::log(floored), by_a) + log);
  *by_a = a > kTiny ? value * *by_a / a : 0.0;
  *by_log = value * weight;
  return value;
}

VectorXd FeasibleAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd values = a_->Values(u);
  const VectorXd logs = model_->classifier().LogProbabilities(u);
  double by_a = 0.0, by_log = 0.0;
  for (Index i = 0; i < values.size(); ++i) {
    if (std::isfinite(values(i))) values(i) = Combine(values(i), logs(i), &by_a, &by_log);
  }
  return values;
}

double FeasibleAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  const double a = a_->Value(u, gradient);
  if (!std::isfinite(a)) return a;
  VectorXd slope;
  const double log = model_->classifier().LogProbability(u, &slope);
  double by_a = 0.0, by_log = 0.0;
  const double value = Combine(a, log, &by_a, &by_log);
  *gradient = by_a * *gradient + by_log * slope;
  return value;
}

double FailureValue(VectorXd outputs) {
  LUTHIER_CHECK(outputs.size() >= 1);
  std::sort(outputs.data(), outputs.data() + outputs.size());
  return outputs((outputs.size() - 1) / 4);
}

}  // namespace luthier::search
