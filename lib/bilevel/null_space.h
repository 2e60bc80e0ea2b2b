#ifndef LUTHIER_LIB_BILEVEL_NULL_SPACE_H_
#define LUTHIER_LIB_BILEVEL_NULL_SPACE_H_

#include <Eigen/Core>

// Supports of sparse models whose columns are linearly dependent: the model's weights are then not unique.
namespace luthier::bilevel {

// Share of the largest pivot of a factor below which columns count as dependent.
inline constexpr double kDependent = 1e-12;

// Moves the weights w, none of them 0, along null vectors of the positive semidefinite Gram matrix `gram` of their
// columns, which change no residual, in the direction of a smaller sum of signs_j w_j, each until a weight is 0. The
// columns of the weights left are independent. Returns false, and changes nothing, if they are so from the start.
// O(n^3).
bool DropDependent(const Eigen::MatrixXd& gram, const Eigen::VectorXd& signs, Eigen::VectorXd* w);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_NULL_SPACE_H_
