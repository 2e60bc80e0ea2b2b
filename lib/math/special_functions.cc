#include "lib/math/special_functions.h"

#include <algorithm>
#include <cmath>

#include "Eigen/Core"
#include "lib/math/infinity.h"

namespace luthier::math {
namespace {

constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kInvSqrtPi = 0.56418958354775628695;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kHalfLog2Pi = 0.91893853320467274178;
constexpr double kHalfLogHalfPi = 0.22579135264472743236;  // ln(pi/2)/2
constexpr double kSqrtHalfPi = 1.25331413731550025121;
constexpr double kLn2 = 0.69314718055994530942;

// The positive half of the 20 Gauss-Legendre nodes on [-1, 1] and their weights.
constexpr int kHalfNodes = 10;
using Nodes = Eigen::Array<double, kHalfNodes, 1>;
constexpr double kNodes[kHalfNodes] = {0.076526521133497333755, 0.22778585114164507808, 0.37370608871541956067,
                                       0.510867001950827098,    0.63605368072651502545, 0.74633190646015079261,
                                       0.83911697182221882339,  0.91223442825132590587, 0.96397192727791379127,
                                       0.99312859918509492479};
constexpr double kWeights[kHalfNodes] = {0.1527533871307258507,   0.14917298647260374679, 0.14209610931838205133,
                                         0.1316886384491766269,   0.11819453196151841731, 0.10193011981724043504,
                                         0.083276741576704748725, 0.06267204833410906357, 0.040601429800386941331,
                                         0.017614007139152118312};
constexpr double kReach = 74.0;  // Twice the 37 nats below the peak where an integrand is cut.

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

double InverseMills(double z) {
  if (z < 0.0) return 1.0 / (kSqrtHalfPi * Erfcx(-z * kInvSqrt2));
  return NormalDensity(z) / NormalCdf(z);
}

double NormalCdfDifference(double a, double b) {
  if (a < 0.0 && b < 0.0) return 0.5 * (std::erfc(-a * kInvSqrt2) - std::erfc(-b * kInvSqrt2));
  if (a > 0.0 && b > 0.0) return 0.5 * (std::erfc(b * kInvSqrt2) - std::erfc(a * kInvSqrt2));
  return 0.5 * (std::erf(a * kInvSqrt2) - std::erf(b * kInvSqrt2));
}

LogCdfDifferenceValue LogNormalCdfDifference(double a, double b) {
  if (std::isnan(a) || std::isnan(b) || a < b) return {std::nan(""), std::nan(""), std::nan("")};
  if (a == b) return {-kInfinity, 0.0, 0.0};
  if (b == -kInfinity) return {LogNormalCdf(a), a == kInfinity ? 0.0 : InverseMills(a), 0.0};
  if (a + b > 0.0) {
    const LogCdfDifferenceValue mirrored = LogNormalCdfDifference(-b, -a);
    return {mirrored.value, -mirrored.by_b, -mirrored.by_a};
  }
  const double width = a - b;
  const double middle = 0.5 * (a + b);
  if (width * (1.0 + std::abs(middle)) < 1e-2) {
    const double m2 = middle * middle, w2 = width * width;
    const double series = w2 * ((m2 - 1.0) / 24.0 + w2 * ((m2 - 6.0) * m2 + 3.0) / 1920.0);
    // phi(a)/phi(m) = exp(-(a - m)(a + m)/2).
    const double scale = 1.0 / (width * (1.0 + series));
    return {LogNormalDensity(middle) + std::log(width) + std::log1p(series),
            std::exp(-0.25 * width * (a + middle)) * scale, -std::exp(0.25 * width * (b + middle)) * scale};
  }
  // a is at most |b|, so Phi(b) <= 1/2 and a is either negative or moderate.
  const double density_ratio = 0.5 * width * (a + b);  // ln(phi(b)/phi(a))
  const double ratio = a < 0.0 ? density_ratio + std::log(Erfcx(-b * kInvSqrt2) / Erfcx(-a * kInvSqrt2))
                               : LogNormalCdf(b) - LogNormalCdf(a);
  const double slope = InverseMills(a) / -std::expm1(ratio);
  return {LogNormalCdf(a) + Log1mExp(ratio), slope, -slope * std::exp(density_ratio)};
}

LogNormalSliceValue LogNormalSlice(double middle, double width) {
  const double m2 = middle * middle, w2 = width * width;
  const double series = w2 * ((m2 - 1.0) / 24.0 + w2 * ((m2 - 6.0) * m2 + 3.0) / 1920.0);
  // phi(m +- w/2)/phi(m) = exp(-w^2/8 -+ m w/2).
  const double tilt = 0.5 * middle * width;
  const double scale = std::exp(-0.125 * w2) / (1.0 + series);
  return {LogNormalDensity(middle) + std::log(width) + std::log1p(series), -2.0 * scale * (std::sinh(tilt) / width),
          scale * std::cosh(tilt) / width};
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

LogPartialMomentValue LogPartialMoment(double z, double q) {
  if (std::isnan(z) || std::isnan(q)) return {std::nan(""), std::nan(""), std::nan("")};
  if (!(q > 0.0)) return {-kInfinity, 0.0, 0.0};
  if (z > 1e150 && q < z) return {-kInfinity, 0.0, 0.0};
  if (q == kInfinity || std::abs(z) > 1e150) {
    const LogHValue h = LogH(z);
    return {h.value, h.slope, 0.0};
  }
  if (q * (1.0 + std::abs(z)) < 1e-5) {  // The integral's Taylor series: no underflow of q^2.
    const double s = 0.5 + q * z / 3.0 + q * q * (z * z - 1.0) / 8.0;
    return {LogNormalDensity(z) + 2.0 * std::log(q) + std::log(s), -z + (q / 3.0 + q * q * z / 4.0) / s,
            2.0 / q + (z / 3.0 + q * (z * z - 1.0) / 4.0) / s};
  }
  // The peak of ln t + z t - t^2/2 is where 1/t + z - t = 0; its curvature is -(1 + 1/t^2).
  const double root = std::sqrt(z * z + 4.0);
  const double peak = z > 0.0 ? 0.5 * (z + root) : 2.0 / (root - z);
  const double p = std::min(peak, q);
  const double slope = p < peak ? 1.0 / p + z - p : 0.0;
  const double curvature = 1.0 + 1.0 / (p * p);
  // Left of p the logarithm falls at least like slope x + curvature x^2/2, right of an inner peak like x^2/2, and like
  // y - ln(1 + y) with y = x/p.
  const double low = std::max(0.0, p - kReach / (slope + std::sqrt(slope * slope + kReach * curvature)));
  const double high = std::min(q, p + std::min(std::sqrt(kReach), 45.0 * p));
  double zeroth = 0.0, first = 0.0, centred = 0.0;  // Integrals of 1, t and t (t - z), relative to phi(p - z).
  for (int panel = 0; panel < 2; ++panel) {
    const double begin = panel == 0 ? low : p;
    const double half = 0.5 * ((panel == 0 ? p : high) - begin);
    if (!(half > 0.0)) continue;
    const double middle = begin + half;
    for (int side = -1; side <= 1; side += 2) {
      const Nodes t = middle + side * half * Eigen::Map<const Nodes>(kNodes);
      const Nodes weighted = half * Eigen::Map<const Nodes>(kWeights) * (-0.5 * (t - p) * ((t - z) + (p - z))).exp();
      zeroth += weighted.sum();
      first += (t * weighted).sum();
      centred += (t * (t - z) * weighted).sum();
    }
  }
  const double edge = q * std::exp(-0.5 * (q - p) * ((q - z) + (p - z)));
  // The two forms are equal (by parts). The first has terms of one sign unless q is beyond z, the second does not
  // cancel there.
  const double by_z = q < z + 3.0 || z <= 0.0 ? centred / first : (zeroth - edge) / first;
  return {LogNormalDensity(p - z) + std::log(first), by_z, edge / first};
}

}  // namespace luthier::math
