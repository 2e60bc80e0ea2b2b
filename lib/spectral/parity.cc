#include "lib/spectral/parity.h"

#include <algorithm>

namespace luthier::spectral {

float Parity(const std::vector<int>& bits, const Eigen::Ref<const Bits>& x) {
  float product = 1.0f;
  for (const int bit : bits) product *= x[bit];
  return product;
}

double Evaluate(const Polynomial& polynomial, const Eigen::Ref<const Bits>& x) {
  double sum = polynomial.intercept;
  for (const Term& term : polynomial.terms) sum += term.weight * static_cast<double>(Parity(term.bits, x));
  return sum;
}

Eigen::VectorXd EvaluateRows(const Polynomial& polynomial, const BitMatrix& x) {
  Eigen::VectorXd values(x.rows());
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    const Bits row = x.row(i).transpose();
    values[i] = Evaluate(polynomial, row);
  }
  return values;
}

std::vector<int> Variables(const Polynomial& polynomial) {
  std::vector<int> variables;
  for (const Term& term : polynomial.terms) variables.insert(variables.end(), term.bits.begin(), term.bits.end());
  std::sort(variables.begin(), variables.end());
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  return variables;
}

int64_t CountFeatures(int bits, int degree, int64_t limit) {
  int64_t total = 0;
  int64_t choose = 1;
  for (int j = 1; j <= std::min(bits, degree); ++j) {
    if (choose > limit / std::max(bits, 1)) return limit;
    choose = choose * (bits - j + 1) / j;
    total += choose;
    if (total >= limit) return limit;
  }
  return total;
}

int AffordableDegree(int bits, int degree, int64_t limit) {
  while (degree > 1 && CountFeatures(bits, degree, limit + 1) > limit) --degree;
  return degree;
}

}  // namespace luthier::spectral
