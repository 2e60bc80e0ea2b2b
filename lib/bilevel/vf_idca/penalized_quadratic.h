#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_PENALIZED_QUADRATIC_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_PENALIZED_QUADRATIC_H_

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/sparse_penalties.h"

namespace luthier::bilevel {

// 1/2 x'Qx - c'x with Q = first * A + second * B + shift * I, A and B symmetric positive semidefinite. It refers to the
// matrices, so other factors are cheap.
struct Quadratic {
  const Eigen::MatrixXd* a = nullptr;
  const Eigen::MatrixXd* b = nullptr;  // Null: none.
  double first = 1.0, second = 0.0, shift = 0.0;
  Eigen::VectorXd c;

  double Entry(Eigen::Index i, Eigen::Index j) const {
    return first * (*a)(i, j) + (b == nullptr ? 0.0 : second * (*b)(i, j)) + (i == j ? shift : 0.0);
  }
  // *g += delta * (column j of Q)
  void AddColumn(Eigen::Index j, double delta, Eigen::VectorXd* g) const;
  Eigen::VectorXd Multiply(const Eigen::VectorXd& x) const;
};

// The minimiser of a Quadratic plus sum_i mu_i P_i(x).
struct PenalizedMinimum {
  Eigen::VectorXd x;
  // A lower bound of the minimum; the value at x if `exact`. The bound follows from strong convexity, so with shift and
  // mu_ridge 0 it is -infinity unless exact.
  double bound = 0.0;
  bool exact = false;  // The conditions of the minimum hold up to rounding.
  // The weights that are not 0, and the factor of the Hessian of these: Q plus the curvature of the group norms.
  std::vector<Eigen::Index> support;
  Eigen::LLT<Eigen::MatrixXd> factor;
  bool factored = false;  // False if there is no factor: the support is empty, or the Hessian singular.
};

// Finds the minimum by descent over blocks of coordinates, and by Newton steps on the weights that are not 0 until
// these settle. `mu` has one entry >= 0 for each penalty, `x` is the start. Makes at most `max_sweeps` sweeps. Returns
// CANCELLED when stopped.
absl::StatusOr<PenalizedMinimum> MinimizePenalized(const Quadratic& quadratic, const SparsePenalties& penalties,
                                                   const Eigen::VectorXd& mu, const Eigen::VectorXd& x, int max_sweeps,
                                                   const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_PENALIZED_QUADRATIC_H_
