#include "lib/kernels/kernel.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace luthier::kernels {
namespace {

constexpr double kSqrt3 = 1.73205080756887729353;
// Where derivatives have a pole at r = 0.
constexpr double kMinRoot = 1e-40;
// Enough for four packets in flight, and for the scratch arrays to stay in the first-level cache.
constexpr Eigen::Index kChunk = 256;

using Scratch = Eigen::Array<double, Eigen::Dynamic, 1, 0, kChunk, 1>;

}  // namespace

std::string FamilyName(Family family) {
  switch (family) {
    case Family::kSquaredExponential:
      return "se";
    case Family::kMatern12:
      return "matern12";
    case Family::kMatern32:
      return "matern32";
    case Family::kMatern52:
      return "matern52";
    case Family::kRationalQuadratic:
      return "rq";
  }
  return "";
}

std::optional<Family> ParseFamily(absl::string_view name) {
  for (Family family : {Family::kSquaredExponential, Family::kMatern12, Family::kMatern32, Family::kMatern52,
                        Family::kRationalQuadratic}) {
    if (name == FamilyName(family)) return family;
  }
  return std::nullopt;
}

ProfileValue Profile(Family family, double r2, double alpha) {
  ProfileValue result{0.0, 0.0};
  EvaluateProfile(family, alpha, 1.0, 1, &r2, &result.value, &result.slope);
  return result;
}

void EvaluateProfile(Family family, double alpha, double variance, Eigen::Index n, const double* r2, double* value,
                     double* slope) {
  for (Eigen::Index begin = 0; begin < n; begin += kChunk) {
    const Eigen::Index m = std::min(kChunk, n - begin);
    const Eigen::Map<const Eigen::ArrayXd> in(r2 + begin, m);
    Eigen::Map<Eigen::ArrayXd> k(value + begin, m);
    Eigen::Map<Eigen::ArrayXd> dk(slope == nullptr ? value + begin : slope + begin, m);
    Scratch r, e;
    switch (family) {
      case Family::kSquaredExponential:
        k = variance * (-0.5 * in).exp();
        if (slope != nullptr) dk = -0.5 * k;
        break;
      case Family::kMatern12:
        r = in.sqrt();
        k = variance * (-r).exp();
        if (slope != nullptr) dk = (r > 0.0).select(-0.5 * k / r.max(1e-150), 0.0);
        break;
      case Family::kMatern32:
        r = kSqrt3 * in.sqrt();
        e = variance * (-r).exp();
        k = (1.0 + r) * e;
        if (slope != nullptr) dk = -1.5 * e;
        break;
      case Family::kMatern52:
        r = (5.0 * in).sqrt();
        e = variance * (-r).exp();
        k = (1.0 + r + r.square() * (1.0 / 3.0)) * e;
        if (slope != nullptr) dk = (-5.0 / 6.0) * (1.0 + r) * e;
        break;
      case Family::kRationalQuadratic:
        r = (0.5 / alpha) * in;
        e = variance * (-alpha * r.log1p()).exp();
        k = e;
        if (slope != nullptr) dk = -0.5 * e / (1.0 + r);
        break;
    }
  }
}

bool HasSlopes(Family family) {
  return family != Family::kMatern12;
}

bool HasRoughSlopes(Family family) {
  return family == Family::kMatern32;
}

void EvaluateProfileDerivatives(Family family, double alpha, Eigen::Index n, const double* r2, double* value,
                                double* first, double* second, double* third) {
  EvaluateProfile(family, alpha, 1.0, n, r2, value, first);
  const Eigen::Map<const Eigen::ArrayXd> in(r2, n), k(value, n), dk(first, n);
  Eigen::Map<Eigen::ArrayXd> d2(second, n), d3(third == nullptr ? second : third, n);
  switch (family) {
    case Family::kSquaredExponential:
      if (third != nullptr) d3 = -0.125 * k;
      d2 = 0.25 * k;
      break;
    case Family::kMatern12:
      LUTHIER_CHECK(HasSlopes(family));
      break;
    case Family::kMatern32: {
      // f' = -(3/2) exp(-sqrt3 r), and d/d(r^2) = 1/(2r) d/dr.
      const Eigen::ArrayXd r = kSqrt3 * in.sqrt().max(kMinRoot);
      if (third != nullptr) d3 = (9.0 / 4.0) * dk * (1.0 + r) / r.cube();
      d2 = -1.5 * dk / r;
      break;
    }
    case Family::kMatern52: {
      // f' = -(5/6)(1 + r) exp(-r) at r = sqrt5 times the distance.
      const Eigen::ArrayXd r = (5.0 * in).sqrt().max(kMinRoot);
      d2 = -2.5 * dk / (1.0 + r);
      if (third != nullptr) d3 = -2.5 * d2 / r;
      break;
    }
    case Family::kRationalQuadratic: {
      const Eigen::ArrayXd t = 1.0 + (0.5 / alpha) * in;
      d2 = -(alpha + 1.0) / (2.0 * alpha) * dk / t;
      if (third != nullptr) d3 = -(alpha + 2.0) / (2.0 * alpha) * d2 / t;
      break;
    }
  }
}

}  // namespace luthier::kernels
