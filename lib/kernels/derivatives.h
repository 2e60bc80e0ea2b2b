#ifndef LUTHIER_LIB_KERNELS_DERIVATIVES_H_
#define LUTHIER_LIB_KERNELS_DERIVATIVES_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/kernels/kernel.h"
#include "lib/kernels/stationary.h"

// Covariances of a process' derivatives (Rasmussen & Williams 2006, section 9.4). For f with covariance k(x, x') and
// directions v, v':
//   cov(v'grad f(x), f(x')) = v . d_x k      cov(v'grad f(x), v''grad f(x')) = v . (d_x d_x' k) v'
// Everything is computed on scaled inputs z = x/l and scaled directions w = v/l, where v'grad_x = w'grad_z. With delta
// = z - z', parts p (one of all columns for kJoint, one a group else), r_p^2 = sum of delta_j^2 over the part, f_p =
// profile(r_p^2), k_p = dk/df_p, k_pq = d2k/df_p df_q:
//   dk/ddelta_j = c_p delta_j                      c_p  = 2 k_p f'_p
//   d2k/ddelta_i ddelta_j = c_p 1{i=j} + E_pq delta_i delta_j    E_pq = 4 (1{p=q} k_p f''_p + k_pq f'_p f'_q)
// and derivatives by the second argument change the sign. Nothing divides by r.
namespace luthier::kernels {

// One row of a covariance matrix: the value of f at a point, or its derivative there.
struct ObservedRow {
  Eigen::Index point = 0;
  Eigen::Index slope = -1;  // Row of the directions; -1: the value.
};

// Points and directions of the rows of values and slopes. Both are scaled: each column divided by its lengthscale.
struct ObservedRows {
  Eigen::MatrixXd points;      // n x d.
  Eigen::MatrixXd directions;  // m x d.
  std::vector<ObservedRow> rows;
};

// The derivatives' side of a StationaryKernel. Immutable; any thread. A pair of points costs one evaluation of each
// part's profile, however many slopes the points have.
class DerivativeKernel {
 public:
  explicit DerivativeKernel(StationaryKernel kernel);

  const StationaryKernel& kernel() const { return kernel_; }

  // Returns the prior variances of df/dx_j (d), per unscaled unit: -2 k_p f'_p(0)/l_j^2. Prior covariances of different
  // ones are 0.
  Eigen::VectorXd GradientVariances() const;
  // Derivatives of ln of the mean of GradientVariances by ln of every lengthscale (one a group) and of the shape
  // parameter (by ln of the signal variance: 1). With no columns all 0.
  KernelGradient LogMeanGradientVariance() const;

  // Computes cov(row, row') (N x N) into `k`, lower triangle; the strict upper one is unspecified. Takes O(n^2 P + N^2
  // d/2). Here and below the functions return CANCELLED if `stop` was raised.
  absl::Status GramLower(const ObservedRows& observed, Eigen::MatrixXd* k, const base::StopToken& stop) const;
  // Returns the derivatives of sum_ab M_ab K_ab for symmetric weights M (N x N, lower triangle read). By dr_p^2/d ln
  // l_j = -2 delta_j^2 and dw_j/d ln l_j = -w_j, contracted once a pair of points: O(N^2 d + n^2 (P + d^2)).
  absl::StatusOr<KernelGradient> Contract(const ObservedRows& observed, const Eigen::MatrixXd& weights,
                                          const base::StopToken& stop) const;
  // Computes cov(row, f(x)) at scaled points b (q x d): N x q.
  void Cross(const ObservedRows& observed, const Eigen::Ref<const Eigen::MatrixXd>& b, Eigen::MatrixXd* k) const;
  // Computes cov(row, f(x)) (N) and its derivatives by the coordinates of x per unscaled unit (N x d) for a scaled x:
  // these are cov(row, df(x)/dx_j).
  void PointCross(const ObservedRows& observed, const Eigen::RowVectorXd& z, Eigen::VectorXd* k,
                  Eigen::MatrixXd* jacobian) const;

 private:
  struct Parts;
  struct Pair;
  // Computes the profiles of the rows of `a` from one scaled point.
  template <typename Rows, typename Point>
  void Evaluate(const Rows& a, const Point& z, bool with_second, bool with_third, Parts* parts) const;
  // Loads the coefficients of row i of the parts.
  void Load(const Parts& parts, Eigen::Index i, Pair* pair) const;
  // Sets out = (d2k/ddelta2) w.
  void ApplyHessian(const double* delta, const double* w, Pair* pair, double* out) const;
  // Adds `times` the pair's derivatives of F = sum M_ab K_ab over its rows to by_column (d) and by_shape, from the
  // weights gathered in `sums`.
  struct Sums;
  void ContractJoint(const double* delta, double f3, const Sums& sums, double times, const Pair& pair,
                     double* by_column) const;
  void ContractParts(const double* delta, const double* f3, const Sums& sums, double times, const Pair& pair,
                     double* by_column, double* by_shape) const;

  StationaryKernel kernel_;
  std::vector<int> part_;  // Part of every column.
  int parts_ = 1;
  double single_ = 1.0, pair_ = 0.0;  // Weights of sum_p f_p and sum_{p<q} f_p f_q, at unit variance.
};

}  // namespace luthier::kernels

#endif  // LUTHIER_LIB_KERNELS_DERIVATIVES_H_
