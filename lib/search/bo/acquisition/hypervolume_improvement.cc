#include "lib/search/bo/acquisition/hypervolume_improvement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/math/infinity.h"
#include "lib/math/special_functions.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using math::kInfinity;

namespace {

// EHVI above which the terms that are left out do not matter: those below the smallest double, and, with a cut, those
// of coordinates at which z is below it, where h(z) < 1e-42. They are most of a large front, and the dearest.
constexpr double kLargeImprovement = 1e-250;
constexpr double kLargeImprovementOfCut = 1e-24;
constexpr double kNoCut = -40.0, kCut = -13.5;
constexpr double kCertain = 9.0;  // Beyond it h(z) = z to the last digit.
// Widths, in deviations, up to which a difference of psi is Phi in the middle times the width: the error is of second
// order. In logarithms the width counts (1 + |z|)-fold, and an integral over up to kNarrowWidth of it replaces a
// difference.
constexpr double kThinWidth = 1e-6;
constexpr double kNarrowWidth = 0.1;

// Returns h(z) = phi(z) + z Phi(z) given phi and Phi there, to about 1e-13 of it: the sum cancels like z^4.
double H(double z, double density, double cdf) {
  if (z > -4.0) return density + z * cdf;
  constexpr double kInvSqrt2 = 0.70710678118654752440, kSqrtHalfPi = 1.25331413731550025121;
  return density * (1.0 + z * kSqrtHalfPi * math::Erfcx(-z * kInvSqrt2));
}

// Returns ln of the integral of Phi over [low, low + width], for a narrow interval, by five Gauss-Legendre nodes.
double LogIntegralOfCdf(double low, double width) {
  constexpr std::array<double, 2> kNodes = {0.53846931010568309, 0.90617984593866399};
  constexpr std::array<double, 2> kWeights = {0.47862867049936647, 0.23692688505618909};
  constexpr double kMiddleWeight = 0.56888888888888889;
  const double middle = low + 0.5 * width;
  const double at_middle = math::LogNormalCdf(middle);
  double sum = kMiddleWeight;
  for (size_t i = 0; i < kNodes.size(); ++i) {
    for (const double side : {-0.5, 0.5}) {
      sum += kWeights[i] * std::exp(math::LogNormalCdf(middle + side * kNodes[i] * width) - at_middle);
    }
  }
  return std::log(0.5 * width) + at_middle + std::log(sum);
}

// ln of D_kj in units of the deviation, and the derivatives of it: phi and Phi differences over D. z_low > z_high are
// (mean - l)/deviation and (mean - u)/deviation; z_high may be -infinity.
struct LogFactor {
  double value, by_mean, by_deviation;
};
LogFactor FactorOf(double z_low, double z_high) {
  const math::LogHValue h = math::LogH(z_low);
  if (z_high == -kInfinity) return {h.value, h.slope, 1.0 - z_low * h.slope};
  const double width = z_low - z_high;
  double value = 0.0;
  if (width * (1.0 + std::abs(z_low)) < kNarrowWidth) {
    value = LogIntegralOfCdf(z_high, width);
  } else {
    value = h.value + math::Log1mExp(math::LogH(z_high).value - h.value);
  }
  const math::LogCdfDifferenceValue cdf = math::LogNormalCdfDifference(z_low, z_high);
  // phi(z_low) - phi(z_high) over D, from phi/(Phi - Phi) at either end.
  const double ratio = std::exp(cdf.value - value);
  return {value, ratio, ratio * (cdf.by_a + cdf.by_b)};
}

}  // namespace

std::optional<HypervolumeImprovement> HypervolumeImprovement::Create(const Eigen::Ref<const MatrixXd>& front,
                                                                     const Eigen::Ref<const VectorXd>& reference) {
  std::optional<pareto::Boxes> boxes = pareto::BoxesAbove(front, reference, kMostFrontBoxes);
  if (!boxes.has_value()) return std::nullopt;
  return HypervolumeImprovement(*std::move(boxes));
}

double HypervolumeImprovement::Plain(const VectorXd& mean, const VectorXd& deviation, double cut, VectorXd* by_mean,
                                     VectorXd* by_deviation) const {
  if (by_mean != nullptr) {
    by_mean->setZero(objectives());
    by_deviation->setZero(objectives());
  }
  const Index m = objectives();
  // psi, Phi and phi at each level of each objective; 0 at infinity.
  std::array<std::vector<std::array<double, 3>>, kMostExactObjectives> at;
  for (Index j = 0; j < m; ++j) {
    const std::vector<double>& levels = boxes_.levels[static_cast<size_t>(j)];
    auto& values = at[static_cast<size_t>(j)];
    values.assign(levels.size(), {0.0, 0.0, 0.0});
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      const double z = (mean(j) - levels[i]) / deviation(j);
      if (z < cut) break;  // The levels ascend.
      if (z > kCertain) {
        values[i] = {deviation(j) * z, 1.0, 0.0};
        continue;
      }
      const double density = math::NormalDensity(z), cdf = math::NormalCdf(z);
      values[i] = {deviation(j) * H(z, density, cdf), cdf, density};
    }
  }
  double sum = 0.0;
  std::array<double, kMostExactObjectives> factor{}, slope{}, spread{};
  for (Index k = 0; k < boxes_.count(); ++k) {
    double product = 1.0;
    for (Index j = 0; j < m; ++j) {
      const auto c = static_cast<size_t>(j);
      const auto low = static_cast<size_t>(boxes_.lower(k, j)), high = static_cast<size_t>(boxes_.upper(k, j));
      const double width = boxes_.levels[c][high] - boxes_.levels[c][low];
      factor[c] = at[c][low][0] - at[c][high][0];
      if (width < kThinWidth * deviation(j)) {
        factor[c] = width * math::NormalCdf((mean(j) - boxes_.levels[c][low] - 0.5 * width) / deviation(j));
      }
      slope[c] = at[c][low][1] - at[c][high][1];
      spread[c] = at[c][low][2] - at[c][high][2];
      product *= factor[c];
    }
    sum += product;
    if (by_mean == nullptr) continue;
    for (size_t c = 0; c < static_cast<size_t>(m); ++c) {
      double others = 1.0;
      for (size_t i = 0; i < static_cast<size_t>(m); ++i) others *= i == c ? 1.0 : factor[i];
      (*by_mean)(static_cast<Index>(c)) += slope[c] * others;
      (*by_deviation)(static_cast<Index>(c)) += spread[c] * others;
    }
  }
  return sum;
}

double HypervolumeImprovement::ByLogarithms(const VectorXd& mean, const VectorXd& deviation, VectorXd* by_mean,
                                            VectorXd* by_deviation) const {
  const Index m = objectives(), count = boxes_.count();
  VectorXd terms(count);
  MatrixXd slopes(count, m), spreads(count, m);
  const double scale = deviation.array().log().sum();
  for (Index k = 0; k < count; ++k) {
    terms(k) = scale;
    for (Index j = 0; j < m; ++j) {
      const std::vector<double>& levels = boxes_.levels[static_cast<size_t>(j)];
      const auto z = [&](int level) { return (mean(j) - levels[static_cast<size_t>(level)]) / deviation(j); };
      const LogFactor factor = FactorOf(z(boxes_.lower(k, j)), z(boxes_.upper(k, j)));
      terms(k) += factor.value;
      slopes(k, j) = factor.by_mean;
      spreads(k, j) = factor.by_deviation;
    }
  }
  const double top = terms.maxCoeff();
  if (!std::isfinite(top)) return top;  // Only means or deviations that are no numbers, or far beyond any results.
  const VectorXd weights = (terms.array() - top).exp();
  const double sum = weights.sum();
  if (by_mean != nullptr) {
    *by_mean = (slopes.transpose() * weights).cwiseQuotient(sum * deviation);
    *by_deviation = (spreads.transpose() * weights).cwiseQuotient(sum * deviation);
  }
  return top + std::log(sum);
}

double HypervolumeImprovement::Log(const Eigen::Ref<const VectorXd>& mean, const Eigen::Ref<const VectorXd>& deviation,
                                   VectorXd* by_mean, VectorXd* by_deviation) const {
  const Index m = objectives();
  LUTHIER_CHECK(mean.size() == m && deviation.size() == m && m <= kMostExactObjectives);
  double plain = Plain(mean, deviation, kCut, by_mean, by_deviation);
  bool large = plain > kLargeImprovementOfCut;
  if (!large) {
    plain = Plain(mean, deviation, kNoCut, by_mean, by_deviation);
    large = plain > kLargeImprovement;
  }
  if (large && plain < kInfinity) {
    if (by_mean != nullptr) {
      *by_mean /= plain;
      *by_deviation /= plain;
    }
    return std::log(plain);
  }
  if (by_mean != nullptr) {
    by_mean->setZero(m);
    by_deviation->setZero(m);
  }
  return ByLogarithms(mean, deviation, by_mean, by_deviation);
}

}  // namespace luthier::search
