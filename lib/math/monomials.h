#ifndef LUTHIER_LIB_MATH_MONOMIALS_H_
#define LUTHIER_LIB_MATH_MONOMIALS_H_

#include <vector>

#include "Eigen/Core"

namespace luthier::math {

// The monomials z^a = prod_j z_j^a_j of degree 1 <= |a| <= degree in `dim` variables, by degree; the first dim are
// z_1 … z_dim. Divided by sqrt(a!), so that the products of two points' monomials sum to the truncated exponential
//   sum_a z^a w^a / a! = sum_{k=1..degree} (z.w)^k / k!.
// Immutable; any thread.
class ScaledMonomials {
 public:
  ScaledMonomials(int dim, int degree);

  // C(dim + degree, degree) - 1, or `limit` when it is larger.
  static int Count(int dim, int degree, int limit);
  // The largest degree whose count is at most max_terms, at most max_degree; at least 1.
  static int LargestDegree(int dim, int max_terms, int max_degree);

  int dim() const { return dim_; }
  int degree() const { return degree_; }
  int size() const { return static_cast<int>(terms_.size()); }

  // All values at z (dim): size() numbers.
  void Values(const Eigen::Ref<const Eigen::VectorXd>& z, Eigen::Ref<Eigen::VectorXd> values) const;
  // sum_j direction_j d/dz_j of every monomial, given the values at z.
  void Slopes(const Eigen::Ref<const Eigen::VectorXd>& values, const Eigen::Ref<const Eigen::VectorXd>& direction,
              Eigen::Ref<Eigen::VectorXd> slopes) const;
  // Gradient (dim) of sum_k coefficients_k monomial_k, given the values at z.
  Eigen::VectorXd Gradient(const Eigen::Ref<const Eigen::VectorXd>& coefficients,
                           const Eigen::Ref<const Eigen::VectorXd>& values) const;
  // Second derivatives (dim x dim) of that sum at z = 0. degree >= 2 or zero.
  Eigen::MatrixXd HessianAtZero(const Eigen::Ref<const Eigen::VectorXd>& coefficients) const;

 private:
  struct Term {
    int parent;     // This is `factor` z_variable times the parent; -1: the constant 1.
    int variable;   // The highest variable with an exponent.
    double factor;  // 1/sqrt(exponent of that variable).
  };
  struct Partial {
    int term;
    int variable;
    int lower;      // d term / d z_variable = factor * lower; -1: the constant 1.
    double factor;  // sqrt(exponent).
  };

  int dim_;
  int degree_;
  std::vector<Term> terms_;
  std::vector<Partial> partials_;
};

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_MONOMIALS_H_
