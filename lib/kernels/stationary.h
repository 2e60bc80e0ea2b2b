#ifndef LUTHIER_LIB_KERNELS_STATIONARY_H_
#define LUTHIER_LIB_KERNELS_STATIONARY_H_

#include <vector>

#include "Eigen/Core"
#include "lib/kernels/kernel.h"

namespace luthier::kernels {

// Which profile, and which lengthscale each column of the inputs uses: the columns of one categorical parameter share
// one. Groups are 0 … groups-1, each used by at least one column.
struct KernelShape {
  Family family = Family::kMatern52;
  std::vector<int> column_group;  // One entry a column.
  int groups = 0;

  int columns() const { return static_cast<int>(column_group.size()); }
};

// A lengthscale of its own for every column.
KernelShape ArdShape(Family family, int columns);
// CHECKs the rules above.
KernelShape GroupedShape(Family family, std::vector<int> column_group);

// k(x, x') = s f(r^2), r^2 = sum_j (x_j - x'_j)^2 / l_{group(j)}^2 with signal variance s. Points are rows. Immutable;
// any thread. Distances are sums of squared differences (never |a|^2 + |b|^2 - 2ab, which loses digits of near points),
// taken once on inputs scaled by 1/l: callers that reuse points scale them once with Scale().
class StationaryKernel {
 public:
  // lengthscales: shape.groups, all > 0. signal_variance > 0.
  StationaryKernel(KernelShape shape, const Eigen::Ref<const Eigen::VectorXd>& lengthscales, double signal_variance);

  const KernelShape& shape() const { return shape_; }
  double signal_variance() const { return signal_variance_; }
  // 1/l of every column.
  const Eigen::RowVectorXd& inverse_lengthscales() const { return inverse_; }

  // n x d inputs, each column divided by its lengthscale.
  Eigen::MatrixXd Scale(const Eigen::Ref<const Eigen::MatrixXd>& x) const;

  // Lower triangle of K for scaled points z (n x d) into `k` (resized to n x n; the strict upper triangle is
  // unspecified). `slope`, when not null: dk/d(r^2) likewise. O(n^2 (d + 1)).
  void GramLower(const Eigen::MatrixXd& z, Eigen::MatrixXd* k, Eigen::MatrixXd* slope) const;
  // The full symmetric matrix for unscaled points.
  Eigen::MatrixXd Gram(const Eigen::Ref<const Eigen::MatrixXd>& x) const;

  // k(a_i, b_j), rows(a) x rows(b), for scaled points; `slope` as above.
  void Cross(const Eigen::Ref<const Eigen::MatrixXd>& a, const Eigen::Ref<const Eigen::MatrixXd>& b, Eigen::MatrixXd* k,
             Eigen::MatrixXd* slope) const;

 private:
  KernelShape shape_;
  double signal_variance_;
  Eigen::RowVectorXd inverse_;
};

// For symmetric weights M (n x n, lower triangle read): the derivatives
//   g_c = sum_ab M_ab dK_ab/d(ln l_c) = -2 sum_ab M_ab k'(r_ab^2) sum_{j in c} (z_aj - z_bj)^2
// for every group c, given S = M o k' in the lower triangle of `weighted_slope` and scaled points z. Uses
// sum_ab S_ab (z_a - z_b)^2 = 2 sum_a z_a^2 (S 1)_a - 2 z' S z: one n x n by n x d product, no pass per column.
Eigen::VectorXd LogLengthscaleGradient(const KernelShape& shape, const Eigen::MatrixXd& z,
                                       const Eigen::MatrixXd& weighted_slope);

}  // namespace luthier::kernels

#endif  // LUTHIER_LIB_KERNELS_STATIONARY_H_
