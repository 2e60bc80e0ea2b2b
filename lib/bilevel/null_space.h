#ifndef LUTHIER_LIB_BILEVEL_NULL_SPACE_H_
#define LUTHIER_LIB_BILEVEL_NULL_SPACE_H_

#include <Eigen/Core>

// Supports of sparse models whose columns are linearly dependent: the model's weights are then not unique.
namespace luthier::bilevel {

// Share of the largest pivot of a factor below which columns count as dependent.
inline constexpr double kDependent = 1e-12;

// Makes the columns of the nonzero weights linearly independent. `gram` is the positive semidefinite Gram matrix of the
// columns of w, and no entry of w is 0. Moves w along null vectors of `gram`, which change no residual, in the
// direction in which the sum of signs_j w_j falls, each time until a weight is 0. Returns false and changes nothing if
// the columns are independent from the start. O(n^3).
bool DropDependent(const Eigen::MatrixXd& gram, const Eigen::VectorXd& signs, Eigen::VectorXd* w);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_NULL_SPACE_H_
