#ifndef LUTHIER_LIB_BILEVEL_COLUMN_PENALTIES_H_
#define LUTHIER_LIB_BILEVEL_COLUMN_PENALTIES_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace luthier::bilevel {

// Linear models whose columns, or single weights, have several penalties, and their hyperparameters lambda_g = ln l2_g.
// The cross derivative has a column for each, and these are disjoint:
//   d^2 h / dw_j dlambda_g = l2_g w_j for j of group g, else 0.
// A problem may also be given in other coordinates, those of columns that were divided by s_j
// (linear::NeedsOnePenalty), u_j = s_j w_j with the penalty c_j = l2_g / s_j^2. At a fixed lambda that is a change of
// variables like any other:
//   d^2 h / du_j dlambda_g = l2_g w_j / s_j = c_j u_j,
// so the formula is the same, and so are gradients with respect to lambda.
struct ColumnPenalties {
  int count = 1;                // Number of penalties: l2 itself, then the groups'.
  std::vector<int32_t> column;  // Index of each column's penalty, in [0, count); empty: all 0. A bias has 0.
  // Models of several classes: index of each penalised weight's penalty, in the order of the weights. Empty: by column.
  std::vector<int32_t> weight;

  // Returns the index of the penalty of penalised weight i, where each column has `per_column` weights.
  int32_t IndexOf(Eigen::Index i, int per_column) const;
  // Returns the sums of `terms` by penalty. `terms` has one entry for each penalised weight, `per_column` of them a
  // column.
  Eigen::VectorXd Sums(const Eigen::VectorXd& terms, int per_column) const;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_COLUMN_PENALTIES_H_
