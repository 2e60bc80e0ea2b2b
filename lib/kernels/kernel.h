#ifndef LUTHIER_LIB_KERNELS_KERNEL_H_
#define LUTHIER_LIB_KERNELS_KERNEL_H_

#include <optional>
#include <string>

#include "Eigen/Core"
#include "absl/strings/string_view.h"

// Stationary covariance functions as profiles of the squared scaled distance r^2 = sum_j (x_j - x'_j)^2 / l_j^2, with
// unit variance: k(0) = 1. Everything is a function of r^2, so no derivative ever divides by r.
namespace luthier::kernels {

enum class Family {
  kSquaredExponential,  // exp(-r^2/2)
  kMatern52,            // (1 + sqrt5 r + 5 r^2/3) exp(-sqrt5 r)
};

// "se", "matern52".
std::string FamilyName(Family family);
std::optional<Family> ParseFamily(absl::string_view name);

// k(r^2) and its derivative with respect to r^2 (negative, or 0): SE -k/2, Matern-5/2 -(5/6)(1 + sqrt5 r) exp(-sqrt5
// r).
struct ProfileValue {
  double value;
  double slope;
};
ProfileValue Profile(Family family, double r2);

// The same for many distances at once, vectorised, times `variance`: r2 (in) and `value` may be the same memory;
// `slope` may be null. All of size n.
void EvaluateProfile(Family family, double variance, Eigen::Index n, const double* r2, double* value, double* slope);

// The profile and its derivatives by r^2 up to the third, at unit variance. value and first are EvaluateProfile's. The
// third of Matern-5/2 grows without bound as r -> 0; below r = 1e-40 it is that of 1e-40: every use multiplies by
// enough differences of coordinates. `third` may be null.
void EvaluateProfileDerivatives(Family family, Eigen::Index n, const double* r2, double* value, double* first,
                                double* second, double* third);

}  // namespace luthier::kernels

#endif  // LUTHIER_LIB_KERNELS_KERNEL_H_
