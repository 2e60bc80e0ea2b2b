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
  kMatern12,            // exp(-r): continuous, nowhere differentiable
  kMatern32,            // (1 + sqrt3 r) exp(-sqrt3 r)
  kMatern52,            // (1 + sqrt5 r + 5 r^2/3) exp(-sqrt5 r)
  kRationalQuadratic,   // (1 + r^2/(2 alpha))^-alpha: squared exponentials of all scales mixed; alpha > 0
};

// "se", "matern12", "matern32", "matern52", "rq".
std::string FamilyName(Family family);
std::optional<Family> ParseFamily(absl::string_view name);

// k(r^2) and its derivative with respect to r^2 (negative, or 0):
//   SE -k/2     1/2 -exp(-r)/(2r)     3/2 -(3/2) exp(-sqrt3 r)     5/2 -(5/6)(1 + sqrt5 r) exp(-sqrt5 r)
//   RQ -(1 + r^2/(2 alpha))^(-alpha-1)/2
// Matern-1/2 has no derivative at r = 0; 0 is returned there, which is what every use needs: the derivative
// is always multiplied by differences of coordinates, which are 0 then.
struct ProfileValue {
  double value;
  double slope;
};
// `alpha` is the rational quadratic's; the others do not use it.
ProfileValue Profile(Family family, double r2, double alpha = 1.0);

// The same for many distances at once, vectorised, times `variance`: r2 (in) and `value` may be the same memory;
// `slope` may be null. All of size n.
void EvaluateProfile(Family family, double alpha, double variance, Eigen::Index n, const double* r2, double* value,
                     double* slope);

// Returns true if paths of the process have derivatives: not under Matern-1/2.
bool HasSlopes(Family family);
// Returns true if those derivatives are themselves nowhere differentiable (Matern-3/2). A slope then says next to
// nothing of its surroundings, and a user who observes slopes should be told to prefer another kernel.
bool HasRoughSlopes(Family family);

// The profile and its derivatives by r^2 up to the third, at unit variance; families that HasSlopes. value and first
// are EvaluateProfile's. Where they grow without bound as r -> 0 (second of Matern-3/2, third of both Materns) they are
// those of r = 1e-40 below that: every use multiplies by enough differences of coordinates. `third` may be null.
void EvaluateProfileDerivatives(Family family, double alpha, Eigen::Index n, const double* r2, double* value,
                                double* first, double* second, double* third);

}  // namespace luthier::kernels

#endif  // LUTHIER_LIB_KERNELS_KERNEL_H_
