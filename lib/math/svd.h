#ifndef LUTHIER_LIB_MATH_SVD_H_
#define LUTHIER_LIB_MATH_SVD_H_

#include "Eigen/Core"

namespace luthier::math {

// A = U diag(values) V' with k = min(m, n) columns of U (m x k) and V (n x k), which are orthonormal; the values are
// not negative and descend.
struct ThinSvd {
  Eigen::MatrixXd u;
  Eigen::VectorXd values;
  Eigen::MatrixXd v;
};

// Computes the thin singular value decomposition of any `a` that is not empty (checked), and its values alone. The
// method is Householder bidiagonalisation, of R of A = Q R if A is longer than wide, then Demmel & Kahan's (1990)
// implicit QR sweeps. They replace Eigen's BDCSVD: that of Eigen 3.4 takes numbers below zero for zeros where it merges
// halves of a matrix of low rank; it then ends the program, or its values are wrong. Errors are about the machine's
// precision times the largest value, so that values far below that have no meaning. Entries may be of any scale. All
// results are NaN if an entry is not finite. Should the sweeps not converge, which is not known to happen, Jacobi's
// rotations take over. Any thread may call.
ThinSvd ComputeThinSvd(const Eigen::Ref<const Eigen::MatrixXd>& a);
Eigen::VectorXd SingularValues(const Eigen::Ref<const Eigen::MatrixXd>& a);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_SVD_H_
