#include "lib/search/bo/model/output_transform.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/check.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kMinLambda = -1.0;
constexpr double kMaxLambda = 4.0;
constexpr double kNearZero = 1e-6;  // Powers this close to 0 are logarithms.

// Returns the transformed t. `log` is log1p(|t|), which does not depend on lambda.
double YeoJohnson(double t, double log, double lambda) {
  if (lambda == 1.0) return t;
  if (t >= 0.0) return std::abs(lambda) < kNearZero ? log : std::expm1(lambda * log) / lambda;
  const double mirrored = 2.0 - lambda;
  return std::abs(mirrored) < kNearZero ? -log : -std::expm1(mirrored * log) / mirrored;
}

double YeoJohnson(double t, double lambda) {
  return YeoJohnson(t, lambda == 1.0 ? 0.0 : std::log1p(std::abs(t)), lambda);
}

double YeoJohnsonInverse(double z, double lambda) {
  if (lambda == 1.0) return z;
  const double power = z >= 0.0 ? lambda : 2.0 - lambda;
  const double size = std::abs(z);
  double t = 0.0;
  if (std::abs(power) < kNearZero) {
    t = std::expm1(size);
  } else {
    // With a negative power the range ends at -1/power.
    const double argument = std::max(power * size, -1.0 + 1e-12);
    t = std::expm1(std::log1p(argument) / power);
  }
  return z >= 0.0 ? t : -t;
}

// Returns ln of the derivative of YeoJohnson by t.
double LogSlope(double t, double log, double lambda) {
  return (lambda - 1.0) * std::copysign(log, t);
}

double LogSlope(double t, double lambda) {
  return LogSlope(t, std::log1p(std::abs(t)), lambda);
}

double Deviation(const VectorXd& v, double mean) {
  const double deviation = std::sqrt((v.array() - mean).square().sum() / static_cast<double>(v.size()));
  return v.size() >= 2 && deviation > 1e-12 * std::max(1.0, std::abs(mean)) && std::isfinite(deviation) ? deviation
                                                                                                        : 1.0;
}

double Quantile(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

OutputTransform::OutputTransform(const VectorXd& scores) {
  LUTHIER_CHECK(scores.size() >= 1 && scores.allFinite());
  lowest_ = scores.minCoeff();
  highest_ = scores.maxCoeff();
  const double largest = scores.cwiseAbs().maxCoeff();
  if (largest > 0x1p400 || (largest > 0.0 && largest < 0x1p-400))
    unit_ = std::ldexp(1.0, std::min(1000, -std::ilogb(largest)));
  std::vector<double> sorted;
  for (Index i = 0; i < scores.size(); ++i) sorted.push_back(scores(i) * unit_);
  std::sort(sorted.begin(), sorted.end());
  const double median = Quantile(sorted, 0.5);
  const double spread = sorted.back() - median + Quantile(sorted, 0.75) - Quantile(sorted, 0.25);
  floor_ = spread > 0.0 ? median - 20.0 * spread : -std::numeric_limits<double>::infinity();
  VectorXd clipped = (scores * unit_).cwiseMax(floor_);
  mean_ = clipped(0) + (clipped.array() - clipped(0)).mean();  // This formula makes the mean of equal scores exact.
  // Relative to the data's own size: scores of 1e-20 are as good as scores of 1.
  const double size = clipped.cwiseAbs().maxCoeff();
  const double deviation = std::sqrt((clipped.array() - mean_).square().sum() / static_cast<double>(clipped.size()));
  deviation_ = clipped.size() >= 2 && deviation > 1e-14 * size && deviation > 0.0 ? deviation : 1.0;
  log_jacobian_ = static_cast<double>(scores.size()) * (std::log(unit_) - std::log(deviation_));
}

OutputTransform OutputTransform::Standard(const VectorXd& scores) {
  return OutputTransform(scores);
}

std::string WarpName(Warp warp) {
  switch (warp) {
    case Warp::kNone:
      return "none";
    case Warp::kYeoJohnson:
      return "yeo_johnson";
    case Warp::kLog:
      return "log";
  }
  return "";
}

std::optional<OutputTransform> OutputTransform::Create(Warp warp, const VectorXd& scores) {
  OutputTransform transform(scores);
  if (warp == Warp::kNone) return transform;
  if (scores.size() < 3) return std::nullopt;
  transform.warp_ = warp;
  if (warp == Warp::kLog) {
    if (!(scores.maxCoeff() < 0.0)) return std::nullopt;
    const VectorXd z = -(-scores).array().log();
    transform.warp_mean_ = z(0) + (z.array() - z(0)).mean();
    transform.warp_deviation_ = Deviation(z, transform.warp_mean_);
    transform.log_jacobian_ = z.sum() - static_cast<double>(z.size()) * std::log(transform.warp_deviation_);
    return transform;
  }
  const Index n = scores.size();
  VectorXd t(n), logs(n);
  for (Index i = 0; i < n; ++i) {
    t(i) = transform.ToStandard(scores(i));
    logs(i) = std::log1p(std::abs(t(i)));
  }
  // Maximises the profile likelihood of lambda, which has one maximum, by golden section.
  VectorXd z(n);
  auto likelihood = [&](double lambda) {
    double slope = 0.0;
    for (Index i = 0; i < n; ++i) {
      z(i) = YeoJohnson(t(i), logs(i), lambda);
      slope += LogSlope(t(i), logs(i), lambda);
    }
    return slope - static_cast<double>(n) * std::log(Deviation(z, z.mean()));
  };
  constexpr double kGolden = 0.61803398874989484820;
  double low = kMinLambda, high = kMaxLambda;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double fa = likelihood(a), fb = likelihood(b);
  for (int step = 0; step < 24; ++step) {
    if (fa >= fb) {
      high = b;
      b = a;
      fb = fa;
      a = high - kGolden * (high - low);
      fa = likelihood(a);
    } else {
      low = a;
      a = b;
      fa = fb;
      b = low + kGolden * (high - low);
      fb = likelihood(b);
    }
  }
  transform.SetYeoJohnson(t, 0.5 * (low + high));
  if (transform.lambda_ == 1.0) return std::nullopt;
  return transform;
}

void OutputTransform::SetYeoJohnson(const VectorXd& t, double lambda) {
  lambda_ = lambda;
  VectorXd z(t.size());
  for (Index i = 0; i < t.size(); ++i) {
    z(i) = YeoJohnson(t(i), lambda);
    log_jacobian_ += LogSlope(t(i), lambda);
  }
  warp_mean_ = z(0) + (z.array() - z(0)).mean();
  warp_deviation_ = Deviation(z, warp_mean_);
  log_jacobian_ -= static_cast<double>(t.size()) * std::log(warp_deviation_);
}

double OutputTransform::ToStandard(double score) const {
  return (std::max(score * unit_, floor_) - mean_) / deviation_;
}

double OutputTransform::Forward(double score) const {
  if (warp_ == Warp::kLog) {
    // A loss of 0 or less counts as the smallest loss above 0.
    return (-std::log(std::max(-score, std::numeric_limits<double>::denorm_min())) - warp_mean_) / warp_deviation_;
  }
  return (YeoJohnson(ToStandard(score), lambda_) - warp_mean_) / warp_deviation_;
}

VectorXd OutputTransform::Forward(const VectorXd& scores) const {
  VectorXd z(scores.size());
  for (Index i = 0; i < scores.size(); ++i) z(i) = Forward(scores(i));
  return z;
}

double OutputTransform::Slope(double score) const {
  if (warp_ == Warp::kLog) return score < 0.0 ? 1.0 / (-score * warp_deviation_) : 0.0;
  if (score * unit_ < floor_) return 0.0;
  return unit_ / deviation_ * std::exp(LogSlope(ToStandard(score), lambda_)) / warp_deviation_;
}

double OutputTransform::InverseWithin(double z) const {
  const double score = Inverse(z), range = highest_ - lowest_;
  if (warp_ == Warp::kNone || !(range > 0.0)) return score;
  return std::clamp(score, lowest_ - range, highest_ + range);  // Ranges beyond the largest double limit nothing.
}

double OutputTransform::Inverse(double z) const {
  if (warp_ == Warp::kLog) {
    const double loss = std::exp(-(z * warp_deviation_ + warp_mean_));
    return -std::min(loss, std::numeric_limits<double>::max());
  }
  const double t = YeoJohnsonInverse(z * warp_deviation_ + warp_mean_, lambda_);
  const double score = (t * deviation_ + mean_) / unit_;
  return std::clamp(score, -std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
}

}  // namespace luthier::search
