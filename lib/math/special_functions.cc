#include "lib/math/special_functions.h"

#include <cmath>
#include <limits>

namespace luthier::math {
namespace {

constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kInvSqrtPi = 0.56418958354775628695;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kHalfLog2Pi = 0.91893853320467274178;
constexpr double kHalfLogHalfPi = 0.22579135264472743236;  // ln(pi/2)/2
constexpr double kSqrtHalfPi = 1.25331413731550025121;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double NormalDensity(double z) {
  return kInvSqrt2Pi * std::exp(-0.5 * z * z);
}

double LogNormalDensity(double z) {
  return -0.5 * z * z - kHalfLog2Pi;
}

double NormalCdf(double z) {
  return 0.5 * std::erfc(-z * kInvSqrt2);
}

double LogNormalCdf(double z) {
  if (z > -5.0) {
    // Near 1 the logarithm of Phi itself would have no digits left of 1 - Phi.
    return z > 1.0 ? std::log1p(-0.5 * std::erfc(z * kInvSqrt2)) : std::log(NormalCdf(z));
  }
  if (z == -kInfinity) return -kInfinity;
  return -0.5 * z * z + std::log(0.5 * Erfcx(-z * kInvSqrt2));
}

double NormalCdfDifference(double a, double b) {
  if (a < 0.0 && b < 0.0) return 0.5 * (std::erfc(-a * kInvSqrt2) - std::erfc(-b * kInvSqrt2));
  if (a > 0.0 && b > 0.0) return 0.5 * (std::erfc(b * kInvSqrt2) - std::erfc(a * kInvSqrt2));
  return 0.5 * (std::erf(a * kInvSqrt2) - std::erf(b * kInvSqrt2));
}

double Erfcx(double x) {
  if (x < 4.0) return std::exp(x * x) * std::erfc(x);
  if (x > 1e150) return kInvSqrtPi / x;  // Below, x + c/x is x; avoids 0/0 at infinity.
  double tail = x;
  for (int level = 20; level >= 1; --level) tail = x + 0.5 * level / tail;
  return kInvSqrtPi / tail;
}

double Log1mExp(double a) {
  if (a > 0.0) return std::nan("");
  return a > -kLn2 ? std::log(-std::expm1(a)) : std::log1p(-std::exp(a));
}

double LogSumExp(double a, double b) {
  const double high = a > b ? a : b;
  const double low = a > b ? b : a;
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (high == -kInfinity || high == kInfinity) return high;
  return high + std::log1p(std::exp(low - high));
}

double LogDiffExp(double a, double b) {
  if (b == -kInfinity) return a;
  if (a == b) return -kInfinity;
  return a + Log1mExp(b - a);
}

LogHValue LogH(double z) {
  if (std::isnan(z)) return {z, z};
  if (z > -1.0) {
    const double cdf = NormalCdf(z);
    const double h = z == kInfinity ? z : NormalDensity(z) + z * cdf;
    return {std::log(h), cdf / h};
  }
  if (z > -50.0) {
    const double erfcx = Erfcx(-z * kInvSqrt2);
    const double mills = kSqrtHalfPi * erfcx;  // Phi(z)/phi(z)
    const double value = LogNormalDensity(z) + Log1mExp(std::log(erfcx * -z) + kHalfLogHalfPi);
    return {value, mills / (1.0 + z * mills)};
  }
  if (z < -1e150) return {-kInfinity, z == -kInfinity ? kInfinity : -z};
  const double w = 1.0 / (z * z);
  const double s = w * (1.0 - w * (3.0 - w * (15.0 - w * (105.0 - 945.0 * w))));
  const double mills = kSqrtHalfPi * Erfcx(-z * kInvSqrt2);
  return {LogNormalDensity(z) + std::log(s), mills / s};
}

}  // namespace luthier::math
