#ifndef LUTHIER_LIB_SPECTRAL_PARITY_H_
#define LUTHIER_LIB_SPECTRAL_PARITY_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"

// Functions of bits x in {-1,+1}^b in the parity basis chi_S(x) = prod_{i in S} x_i, which is orthonormal under uniform
// bits: every function is f = sum_S f_S chi_S with f_S = E[f chi_S] and sum_S f_S^2 = E[f^2] (O'Donnell 2014,
// "Analysis of Boolean Functions", chapter 1).
//
//   b      number of bits                      T   number of samples
//   S      a set of bits, at most D of them    N   number of such sets
//   chi_S  its parity: a feature
namespace luthier::spectral {

// T x b, entries -1 and +1; a column is one bit over all samples.
using BitMatrix = Eigen::MatrixXf;
using Bits = Eigen::VectorXf;  // One sample: b entries.

// weight * chi_bits. `bits` ascending, not empty.
struct Term {
  std::vector<int> bits;
  double weight = 0.0;
  friend bool operator==(const Term&, const Term&) = default;
};

// intercept + sum of terms.
struct Polynomial {
  double intercept = 0.0;
  std::vector<Term> terms;
  friend bool operator==(const Polynomial&, const Polynomial&) = default;
};

// Returns chi_S at x: -1 or +1.
float Parity(const std::vector<int>& bits, const Eigen::Ref<const Bits>& x);
double Evaluate(const Polynomial& polynomial, const Eigen::Ref<const Bits>& x);
// Evaluates at every row of x.
Eigen::VectorXd EvaluateRows(const Polynomial& polynomial, const BitMatrix& x);
// Returns the bits that appear in a term, ascending.
std::vector<int> Variables(const Polynomial& polynomial);

// Returns sum_{j=1..degree} C(bits, j), the number of non-constant features; at most `limit`.
int64_t CountFeatures(int bits, int degree, int64_t limit = INT64_MAX / 2);
// Returns the largest degree <= `degree` with at most `limit` features; at least 1.
int AffordableDegree(int bits, int degree, int64_t limit);

}  // namespace luthier::spectral

#endif  // LUTHIER_LIB_SPECTRAL_PARITY_H_
