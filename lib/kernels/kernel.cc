#include "lib/kernels/kernel.h"

#include "lib/kernels/packets.h"

namespace luthier::kernels {
namespace {

// Least root, for derivatives that have a pole at r = 0.
constexpr double kMinRoot = 1e-40;

}  // namespace

std::string FamilyName(Family family) {
  switch (family) {
    case Family::kSquaredExponential:
      return "se";
    case Family::kMatern52:
      return "matern52";
  }
  return "";
}

std::optional<Family> ParseFamily(absl::string_view name) {
  for (Family family : {Family::kSquaredExponential, Family::kMatern52}) {
    if (name == FamilyName(family)) return family;
  }
  return std::nullopt;
}

ProfileValue Profile(Family family, double r2) {
  ProfileValue result{0.0, 0.0};
  EvaluateProfile(family, 1.0, 1, &r2, &result.value, &result.slope);
  return result;
}

void EvaluateProfile(Family family, double variance, Eigen::Index n, const double* r2, double* value, double* slope) {
  const packets::Packet scale = packets::Set(variance);
  packets::WithFamily(family, [&]<Family kFamily>() {
    const auto rows = [&]<bool kOne>(Eigen::Index i) {
      const packets::Profile profile = packets::ProfileOf<kFamily>(packets::Load<kOne>(r2 + i));
      packets::Store<kOne>(value + i, Eigen::internal::pmul(scale, profile.value));
      if (slope != nullptr) packets::Store<kOne>(slope + i, Eigen::internal::pmul(scale, profile.slope));
    };
    Eigen::Index i = 0;
    for (; i + packets::kLanes <= n; i += packets::kLanes) rows.template operator()<false>(i);
    for (; i < n; ++i) rows.template operator()<true>(i);  // No register twice: the memory may be that of r2.
  });
}

void EvaluateProfileDerivatives(Family family, Eigen::Index n, const double* r2, double* value, double* first,
                                double* second, double* third) {
  EvaluateProfile(family, 1.0, n, r2, value, first);
  const Eigen::Map<const Eigen::ArrayXd> in(r2, n), k(value, n), dk(first, n);
  Eigen::Map<Eigen::ArrayXd> d2(second, n), d3(third == nullptr ? second : third, n);
  switch (family) {
    case Family::kSquaredExponential:
      if (third != nullptr) d3 = -0.125 * k;
      d2 = 0.25 * k;
      break;
    case Family::kMatern52: {
      // f' = -(5/6)(1 + r) exp(-r) at r = sqrt5 times the distance.
      const Eigen::ArrayXd r = (5.0 * in).sqrt().max(kMinRoot);
      d2 = -2.5 * dk / (1.0 + r);
      if (third != nullptr) d3 = -2.5 * d2 / r;
      break;
    }
  }
}

}  // namespace luthier::kernels
