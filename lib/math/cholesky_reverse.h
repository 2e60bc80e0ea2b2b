#ifndef LUTHIER_LIB_MATH_CHOLESKY_REVERSE_H_
#define LUTHIER_LIB_MATH_CHOLESKY_REVERSE_H_

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Derivatives back through Cholesky's factor and the triangular solves with it: reverse mode, for a scalar E that is a
// function of them. "The derivative by L" is dE/dL_ij at i >= j; what is above the diagonal is neither read nor set.
// For criteria that depend on the factor itself (log determinants, leave-one-out errors). Where E depends on a solution
// H^-1 b alone, one more solve, the adjoint, gives the same for less.
namespace luthier::math {

// Returns dE/dH from the factor L of L L' = H, n x n, and dE/dL: lower triangle, where entry (i, j), i > j, is the
// derivative by H_ij and H_ji as one variable. Works in blocks of 64 columns, mostly by matrix products (Murray 2016,
// arXiv:1602.07527); O(n^3 / 3). Returns CANCELLED when stopped.
absl::StatusOr<Eigen::MatrixXd> ReverseCholesky(const Eigen::Ref<const Eigen::MatrixXd>& l, Eigen::MatrixXd l_bar,
                                                const base::StopToken& stop);

// Does the same entry by entry (Bengio 2000, section 3.2, with the derivative by the diagonal taken after its row's
// loop). Tests compare ReverseCholesky with it.
Eigen::MatrixXd ReverseCholeskyByEntry(const Eigen::Ref<const Eigen::MatrixXd>& l, Eigen::MatrixXd l_bar);

// For v = L^-1 b, columns of n entries: returns dE/db from dE/dv, and adds to *l_bar the part of dE/dL that v brings.
Eigen::MatrixXd ReverseSolveLower(const Eigen::Ref<const Eigen::MatrixXd>& l,
                                  const Eigen::Ref<const Eigen::MatrixXd>& v, Eigen::MatrixXd v_bar,
                                  Eigen::MatrixXd* l_bar);

// Does the same for v = L^-T b.
Eigen::MatrixXd ReverseSolveLowerTransposed(const Eigen::Ref<const Eigen::MatrixXd>& l,
                                            const Eigen::Ref<const Eigen::MatrixXd>& v, Eigen::MatrixXd v_bar,
                                            Eigen::MatrixXd* l_bar);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_CHOLESKY_REVERSE_H_
