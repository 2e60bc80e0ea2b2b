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

// Coordinates at which z is below the cut are left out: h(z) < 1e-42. They are most of a large front, and the dearest.
constexpr double kCut = -13.5;
constexpr double kLogDensityAtZero = -0.91893853320467274178;
constexpr double kBelowLastDigit = 45.0;  // A term e^45 times smaller than another is below its last digit.
constexpr double kCertain = 9.0;          // Beyond it h(z) = z to the last digit.
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

double HypervolumeImprovement::Plain(const VectorXd& mean, const VectorXd& deviation, VectorXd* by_mean,
                                     VectorXd* by_deviation) const {
  if (by_mean != nullptr) {
    by_mean->setZero(objectives());
    by_deviation->setZero(objectives());
  }
  const Index m = objectives();
  for (Index j = 0; j < m; ++j) {
    if ((mean(j) - boxes_.levels[static_cast<size_t>(j)].front()) / deviation(j) < kCut) return 0.0;
  }
  // psi, Phi and phi at each level of each objective; 0 at infinity. Levels within reach come first.
  std::array<std::vector<std::array<double, 3>>, kMostExactObjectives> at;
  std::array<int, kMostExactObjectives> reached{};
  for (Index j = 0; j < m; ++j) {
    const std::vector<double>& levels = boxes_.levels[static_cast<size_t>(j)];
    auto& values = at[static_cast<size_t>(j)];
    values.assign(levels.size(), {0.0, 0.0, 0.0});
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      const double z = (mean(j) - levels[i]) / deviation(j);
      if (z < kCut) break;  // The levels ascend.
      reached[static_cast<size_t>(j)] = static_cast<int>(i) + 1;
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
    Index near = 0;
    while (near < m && boxes_.lower(k, near) < reached[static_cast<size_t>(near)]) ++near;
    if (near < m) continue;
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
  const auto z = [&](Index j, int level) {
    return (mean(j) - boxes_.levels[static_cast<size_t>(j)][static_cast<size_t>(level)]) / deviation(j);
  };
  if (by_mean != nullptr) {
    by_mean->setZero(m);
    by_deviation->setZero(m);
  }
  // A factor is at most h(z) at the lower corner, and h(z) at most phi(z), or phi(0) + z above 0.
  VectorXd bounds = VectorXd::Zero(count);
  VectorXd at;
  for (Index j = 0; j < m; ++j) {
    const auto levels = static_cast<Index>(boxes_.levels[static_cast<size_t>(j)].size()) - 1;
    at.resize(levels);
    for (Index i = 0; i < levels; ++i) {
      const double low = z(j, static_cast<int>(i));
      at(i) = low > 0.0 ? std::log(math::NormalDensity(0.0) + low) : -0.5 * low * low + kLogDensityAtZero;
    }
    for (Index k = 0; k < count; ++k) bounds(k) += at(boxes_.lower(k, j));
  }
  Index likely = 0;
  bounds.maxCoeff(&likely);
  struct Term {
    double value;
    std::array<LogFactor, kMostExactObjectives> factors;
  };
  std::vector<Term> terms;
  double top = -kInfinity;
  for (Index i = 0; i < count; ++i) {
    const Index k = i == 0 ? likely : i <= likely ? i - 1 : i;  // The largest bound first.
    if (bounds(k) < top - kBelowLastDigit) continue;
    Term& term = terms.emplace_back();
    term.value = 0.0;
    for (Index j = 0; j < m; ++j) {
      LogFactor& factor = term.factors[static_cast<size_t>(j)];
      factor = FactorOf(z(j, boxes_.lower(k, j)), z(j, boxes_.upper(k, j)));
      term.value += factor.value;
    }
    top = std::max(top, term.value);
  }
  if (!std::isfinite(top)) return top;  // Only means or deviations that are no numbers, or far beyond any results.
  double sum = 0.0;
  for (Term& term : terms) sum += (term.value = std::exp(term.value - top));
  if (by_mean != nullptr) {
    for (Index j = 0; j < m; ++j) {
      for (const Term& term : terms) {
        if (!(term.value > 0.0)) continue;  // Its slope may be infinite.
        const LogFactor& factor = term.factors[static_cast<size_t>(j)];
        (*by_mean)(j) += term.value * factor.by_mean / (sum * deviation(j));
        (*by_deviation)(j) += term.value * factor.by_deviation / (sum * deviation(j));
      }
    }
  }
  return deviation.array().log().sum() + top + std::log(sum);
}

double HypervolumeImprovement::Log(const Eigen::Ref<const VectorXd>& mean, const Eigen::Ref<const VectorXd>& deviation,
                                   VectorXd* by_mean, VectorXd* by_deviation) const {
  const Index m = objectives();
  LUTHIER_CHECK(mean.size() == m && deviation.size() == m && m <= kMostExactObjectives);
  const double plain = Plain(mean, deviation, by_mean, by_deviation);
  if (plain > kLargeImprovement && plain < kInfinity) {
    if (by_mean != nullptr) {
      *by_mean /= plain;
      *by_deviation /= plain;
    }
    return std::log(plain);
  }
  return ByLogarithms(mean, deviation, by_mean, by_deviation);
}

}  // namespace luthier::search
