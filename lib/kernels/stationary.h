#ifndef LUTHIER_LIB_KERNELS_STATIONARY_H_
#define LUTHIER_LIB_KERNELS_STATIONARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/kernels/kernel.h"

namespace luthier::kernels {

// Combination of the columns. r_g: the scaled distance within one group of columns, f: the profile.
enum class Structure {
  kJoint,     // f(r^2), r^2 = sum_g r_g^2: every interaction.
  kAdditive,  // (1/G) sum_g f(r_g^2): sums of functions of one parameter each. (Duvenaud et al. 2011, order 1.)
  // (1/G) sum_g f_g / (1 + rho) + (2/(G(G-1))) sum_{g<h} f_g f_h rho/(1 + rho), f_g = f(r_g^2): functions of single
  // parameters and of pairs. Needs two groups.
  kPairwise,
};

// Profile and structure of a kernel, and the lengthscale that each column of the inputs uses: the columns of one
// categorical parameter share one. Groups are 0 … groups-1, each used by at least one column.
struct KernelShape {
  Family family = Family::kMatern52;
  Structure structure = Structure::kJoint;
  std::vector<int> column_group;  // One entry a column.
  int groups = 0;

  int columns() const { return static_cast<int>(column_group.size()); }
  // Returns true if the kernel has one more positive parameter beside lengthscales and variance: rho of kPairwise.
  bool has_shape_parameter() const { return structure == Structure::kPairwise; }
};

// Returns a shape with a lengthscale for every column.
KernelShape ArdShape(Family family, int columns, Structure structure = Structure::kJoint);
// CHECKs the rules above.
KernelShape GroupedShape(Family family, std::vector<int> column_group, Structure structure = Structure::kJoint);
// "matern52", "additive-matern52", "pairwise-se", …
std::string ShapeName(const KernelShape& shape);

// Derivatives of a contraction sum_ab M_ab K_ab.
struct KernelGradient {
  Eigen::VectorXd log_lengthscales;  // One a group.
  double log_shape_parameter = 0.0;  // 0 where the shape has none.
};

// A stationary kernel k(x, x') with signal variance s = k(x, x). Points are rows. Immutable; any thread. Distances are
// sums of squared differences (never |a|^2 + |b|^2 - 2ab, which loses digits of near points), taken once on inputs
// scaled by 1/l: callers that reuse points scale them once with Scale(). Cost is counted in profile evaluations
// (exponentials), P: 1 a pair of points for kJoint, else the number of groups.
class StationaryKernel {
 public:
  // lengthscales: shape.groups, all > 0. signal_variance, shape_parameter > 0.
  StationaryKernel(KernelShape shape, const Eigen::Ref<const Eigen::VectorXd>& lengthscales, double signal_variance,
                   double shape_parameter = 1.0);

  const KernelShape& shape() const { return shape_; }
  double signal_variance() const { return signal_variance_; }
  double shape_parameter() const { return shape_parameter_; }
  // Weights of sum_g f_g and of sum_{g<h} f_g f_h at unit variance; 0 if the structure has no such sum.
  double single_weight() const { return single_; }
  double pair_weight() const { return pair_; }
  // 1/l of every column.
  const Eigen::RowVectorXd& inverse_lengthscales() const { return inverse_; }

  // Returns n x d inputs, each column divided by its lengthscale.
  Eigen::MatrixXd Scale(const Eigen::Ref<const Eigen::MatrixXd>& x) const;

  // Computes the lower triangle of K for scaled points z (n x d) into `k` (resized to n x n; the strict upper triangle
  // is unspecified). `slope`, unless null, keeps the values that Contract needs: for kJoint dk/d(r^2) in the same form,
  // else nothing. Takes O(n^2 (d + P)/2). Here and below the functions return CANCELLED if `stop` was raised.
  absl::Status GramLower(const Eigen::MatrixXd& z, Eigen::MatrixXd* k, Eigen::MatrixXd* slope,
                         const base::StopToken& stop) const;
  // Returns the full symmetric matrix for unscaled points.
  Eigen::MatrixXd Gram(const Eigen::Ref<const Eigen::MatrixXd>& x) const;
  // Returns the derivatives of sum_ab M_ab K_ab for symmetric weights M (n x n, lower triangle read), given the slope
  // that GramLower left for the same z. Takes O(n^2 d/2), for others than kJoint O(n^2 (d + P)/2).
  absl::StatusOr<KernelGradient> Contract(const Eigen::MatrixXd& z, const Eigen::MatrixXd& slope,
                                          const Eigen::MatrixXd& weights, const base::StopToken& stop) const;

  // Computes k(a_i, b_j), rows(a) x rows(b), for scaled points.
  void Cross(const Eigen::Ref<const Eigen::MatrixXd>& a, const Eigen::Ref<const Eigen::MatrixXd>& b,
             Eigen::MatrixXd* k) const;
  // Computes k(a_i, x) (n) and its derivatives by the coordinates of x (n x d, per unscaled unit) for scaled points a
  // (n x d) and scaled x (1 x d).
  void PointCross(const Eigen::Ref<const Eigen::MatrixXd>& a, const Eigen::RowVectorXd& z, Eigen::VectorXd* k,
                  Eigen::MatrixXd* jacobian) const;

 private:
  // Returns the operations that a column of `rows` values takes.
  int64_t CostOf(Eigen::Index rows) const;
  // Computes k(a_i, z) at unit variance and, unless null, the slopes dk/d(r^2) of kJoint, for the m rows of a
  // column-major matrix whose columns are `stride` apart.
  void Column(const double* a, Eigen::Index stride, Eigen::Index m, const double* z, double* k, double* slope) const;

  KernelShape shape_;
  double signal_variance_;
  double shape_parameter_;
  double single_ = 0.0, pair_ = 0.0;  // Weights of sum_g f_g and sum_{g<h} f_g f_h, at unit variance.
  Eigen::RowVectorXd inverse_;
  // The columns of group g are columns_[begin_[g]] … columns_[begin_[g+1] - 1].
  std::vector<Eigen::Index> columns_, begin_;
};

}  // namespace luthier::kernels

#endif  // LUTHIER_LIB_KERNELS_STATIONARY_H_
