#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_SPARSE_PENALTIES_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_SPARSE_PENALTIES_H_

#include <Eigen/Core>
#include <vector>

namespace luthier::bilevel {

// The penalties P_i of sparse linear regression, in this order:
//   |x_(m)|_2 for each group m of coordinates,    |x|_1,    1/2 |x|^2 where `ridge`
// Elastic net: no groups, ridge. Sparse group lasso: groups that are all coordinates together, no ridge.
struct SparsePenalties {
  // The coordinates of each group, which are disjoint. Without groups, each coordinate is a block of its own and has no
  // group norm.
  std::vector<std::vector<Eigen::Index>> groups;
  bool ridge = false;

  Eigen::Index group_count() const { return static_cast<Eigen::Index>(groups.size()); }
  Eigen::Index count() const { return group_count() + 1 + (ridge ? 1 : 0); }
  Eigen::Index l1() const { return group_count(); }      // Index of |x|_1.
  Eigen::Index l2() const { return group_count() + 1; }  // Index of 1/2 |x|^2.
  // Returns all P_i(x).
  Eigen::VectorXd Values(const Eigen::VectorXd& x) const;
};

// A bound on min of <g, z> over z with P_i(z) <= r_i, and how it changes with r.
struct LinearBound {
  double value = 0.0;  // <= <g, z> for all such z, with equality for the best.
  // gamma_i >= 0 with <g, z> >= value - sum_i gamma_i (r'_i - r_i) for all z with P_i(z) <= r'_i, at every r' >= 0.
  Eigen::VectorXd multipliers;
};

// Minimises phi(tau) = tau r_l1 + sum_m R_m |soft(-g_m, tau)| over tau >= 0, R_m the radius of group m (with `ridge`
// one group of all coordinates of radius sqrt(2 r_l2)); the bound is -phi. `r` has one entry > 0 for each penalty. With
// `ridge` there may be no groups. O(60 p).
LinearBound MinimizeLinear(const SparsePenalties& penalties, const Eigen::VectorXd& g, const Eigen::VectorXd& r);

// Returns x shrunk towards 0 so that P_i(x) <= r_i for all i.
Eigen::VectorXd ScaledInto(const SparsePenalties& penalties, const Eigen::VectorXd& x, const Eigen::VectorXd& r);

// Returns the point nearest to x with P_i(x) <= r_i for all i. O(100 p).
Eigen::VectorXd ProjectedInto(const SparsePenalties& penalties, const Eigen::VectorXd& x, const Eigen::VectorXd& r);

// Returns sign(v) max(0, |v| - threshold).
inline double Soft(double v, double threshold) {
  return v > threshold ? v - threshold : v < -threshold ? v + threshold : 0.0;
}

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_SPARSE_PENALTIES_H_
