#include "lib/math/monomials.h"

#include <cmath>
#include <cstdint>
#include <map>

#include "lib/base/check.h"

namespace luthier::math {

using Eigen::MatrixXd;
using Eigen::Ref;
using Eigen::VectorXd;

int ScaledMonomials::Count(int dim, int degree, int limit) {
  int64_t count = 1;  // C(dim + k, k), exact at each step.
  for (int k = 1; k <= degree; ++k) {
    count = count * (dim + k) / k;
    if (count - 1 >= limit) return limit;
  }
  return static_cast<int>(count - 1);
}

int ScaledMonomials::LargestDegree(int dim, int max_terms, int max_degree) {
  int degree = 1;
  while (degree < max_degree && Count(dim, degree + 1, max_terms + 1) <= max_terms) ++degree;
  return degree;
}

ScaledMonomials::ScaledMonomials(int dim, int degree) : dim_(dim), degree_(degree) {
  LUTHIER_CHECK(dim >= 0 && degree >= 1);
  std::map<std::vector<int>, int> index;  // Exponents -> term.
  std::vector<std::vector<int>> exponents;
  size_t level_begin = 0;
  for (int k = 1; k <= degree; ++k) {
    const size_t level_end = exponents.size();
    // Each monomial of degree k once: its parent has no variable above the new factor.
    for (size_t p = level_begin; p < (k == 1 ? 1 : level_end); ++p) {
      const int first = k == 1 ? 0 : terms_[p].variable;
      for (int v = first; v < dim; ++v) {
        std::vector<int> a = k == 1 ? std::vector<int>(static_cast<size_t>(dim), 0) : exponents[p];
        const int exponent = ++a[static_cast<size_t>(v)];
        terms_.push_back({k == 1 ? -1 : static_cast<int>(p), v, 1.0 / std::sqrt(exponent)});
        index.emplace(a, static_cast<int>(exponents.size()));
        exponents.push_back(std::move(a));
      }
    }
    level_begin = level_end;
  }
  for (size_t t = 0; t < exponents.size(); ++t) {
    for (int v = 0; v < dim; ++v) {
      std::vector<int> a = exponents[t];
      const int exponent = a[static_cast<size_t>(v)]--;
      if (exponent == 0) continue;
      const auto lower = index.find(a);
      partials_.push_back({static_cast<int>(t), v, lower == index.end() ? -1 : lower->second,
                           std::sqrt(static_cast<double>(exponent))});
    }
  }
}

void ScaledMonomials::Values(const Ref<const VectorXd>& z, Ref<VectorXd> values) const {
  for (int t = 0; t < size(); ++t) {
    const Term& term = terms_[static_cast<size_t>(t)];
    values(t) = term.factor * z(term.variable) * (term.parent < 0 ? 1.0 : values(term.parent));
  }
}

void ScaledMonomials::Slopes(const Ref<const VectorXd>& values, const Ref<const VectorXd>& direction,
                             Ref<VectorXd> slopes) const {
  slopes.setZero();
  for (const Partial& p : partials_) {
    slopes(p.term) += direction(p.variable) * p.factor * (p.lower < 0 ? 1.0 : values(p.lower));
  }
}

VectorXd ScaledMonomials::Gradient(const Ref<const VectorXd>& coefficients, const Ref<const VectorXd>& values) const {
  VectorXd gradient = VectorXd::Zero(dim_);
  for (const Partial& p : partials_) {
    gradient(p.variable) += coefficients(p.term) * p.factor * (p.lower < 0 ? 1.0 : values(p.lower));
  }
  return gradient;
}

MatrixXd ScaledMonomials::HessianAtZero(const Ref<const VectorXd>& coefficients) const {
  MatrixXd hessian = MatrixXd::Zero(dim_, dim_);
  for (const Partial& p : partials_) {
    if (p.lower < 0 || p.lower >= dim_) continue;  // The degree is not two.
    // The monomial is factor/exponent-free: z_v z_w (v != w, both scaled by 1) or z_v^2/sqrt 2.
    hessian(p.variable, p.lower) += coefficients(p.term) * p.factor;
  }
  return hessian;
}

}  // namespace luthier::math
