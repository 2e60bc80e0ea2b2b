#ifndef LUTHIER_TESTS_LIB_SPECTRAL_TESTING_H_
#define LUTHIER_TESTS_LIB_SPECTRAL_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/spectral/parity.h"

namespace luthier::spectral {

inline std::vector<int> AllBits(int bits) {
  std::vector<int> all(static_cast<size_t>(bits));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline BitMatrix RandomBits(base::RandomStream& random, int samples, int bits) {
  BitMatrix x(samples, bits);
  for (int i = 0; i < samples; ++i) {
    for (int j = 0; j < bits; ++j) x(i, j) = random.Uniform() < 0.5 ? -1.0f : 1.0f;
  }
  return x;
}

// `terms` different random sets of 1 … degree of the first `relevant` bits, weights +-U(0.5, 1.5).
inline Polynomial RandomPolynomial(base::RandomStream& random, int relevant, int terms, int degree) {
  Polynomial g;
  std::set<std::vector<int>> seen;
  while (static_cast<int>(g.terms.size()) < terms) {
    const auto size = 1 + random.UniformInt(static_cast<uint64_t>(degree));
    std::set<int> bits;
    while (bits.size() < size) bits.insert(static_cast<int>(random.UniformInt(static_cast<uint64_t>(relevant))));
    std::vector<int> sorted(bits.begin(), bits.end());
    if (!seen.insert(sorted).second) continue;
    const double weight = (random.Uniform() < 0.5 ? -1.0 : 1.0) * (0.5 + random.Uniform());
    g.terms.push_back({sorted, weight});
  }
  return g;
}

// Values of g at the rows of x with normal noise of `noise` times their standard deviation.
inline Eigen::VectorXd NoisyValues(base::RandomStream& random, const Polynomial& g, const BitMatrix& x, double noise) {
  double variance = 0.0;
  for (const Term& term : g.terms) variance += term.weight * term.weight;
  Eigen::VectorXd y = EvaluateRows(g, x);
  for (Eigen::Index i = 0; i < y.size(); ++i) y[i] += noise * std::sqrt(variance) * random.Normal();
  return y;
}

inline std::set<std::vector<int>> Support(const Polynomial& g) {
  std::set<std::vector<int>> support;
  for (const Term& term : g.terms) support.insert(term.bits);
  return support;
}

// Share of the terms of `truth` that `found` has.
inline double Recovered(const Polynomial& truth, const Polynomial& found) {
  const auto have = Support(found);
  double count = 0.0;
  for (const Term& term : truth.terms) count += static_cast<double>(have.count(term.bits));
  return count / static_cast<double>(truth.terms.size());
}

}  // namespace luthier::spectral

#endif  // LUTHIER_TESTS_LIB_SPECTRAL_TESTING_H_
