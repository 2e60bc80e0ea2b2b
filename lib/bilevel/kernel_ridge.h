#ifndef LUTHIER_LIB_BILEVEL_KERNEL_RIDGE_H_
#define LUTHIER_LIB_BILEVEL_KERNEL_RIDGE_H_

#include <Eigen/Core>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/linear/conjugate_gradient.h"
#include "lib/math/cholesky.h"

// Kernel ridge regression with the Gaussian kernel k(a, b) = exp(-sum_j gamma_j (a_j - b_j)^2). Hyperparameters are
// lambda = (ln gamma, ln l2), with one gamma for all coordinates, or one for each (automatic relevance determination).
namespace luthier::bilevel {

// Returns sum_j gamma_j (a_ij - b_kj)^2 for the rows of a (n x p) and b (m x p): n x m, entries >= 0. With one entry in
// `gamma` it counts for all coordinates. Returns CANCELLED when stopped.
absl::StatusOr<Eigen::MatrixXd> WeightedSquaredDistances(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b,
                                                         const Eigen::VectorXd& gamma, const base::StopToken& stop);

// The inner problem over the n coefficients c of the dual:
//   h(c, lambda) = 1/2 c'(K + l2 I) c - y'c,   H = K + l2 I,   D = [dK/dlambda_j c ..., l2 c]
// mu = l2 and the other constants are true bounds.
class KernelRidgeInner final : public InnerProblem {
 public:
  // `points` (n x p) and `target` (n) must outlive this. `gamma` has 1 or p entries > 0, l2 > 0. `distances`: the
  // matrix of WeightedSquaredDistances(points, points, [1]) for use with one gamma, or null. Up to kMostFactored points
  // Cholesky's factor is used, otherwise conjugate gradients.
  static absl::StatusOr<KernelRidgeInner> Create(const Eigen::MatrixXd* points, const Eigen::VectorXd* target,
                                                 const Eigen::MatrixXd* distances, Eigen::VectorXd gamma, double l2,
                                                 const base::StopToken& stop);
  static constexpr Eigen::Index kMostFactored = 4000;

  // Returns C(lambda) by SolveQuadratic: up to kMostFactored points by Cholesky's factor.
  absl::StatusOr<LinearSolution> Solve(double tolerance, int max_iterations, const base::StopToken& stop);
  // Returns true if K + l2 I is singular up to round-off, so that it could be factored only with more on its diagonal.
  bool singular() const { return singular_; }

  Eigen::Index dim() const override { return target_->size(); }
  Eigen::Index hyper_dim() const override { return gamma_.size() + 1; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override { return factor_->Solve(r); }
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  KernelRidgeInner(const Eigen::MatrixXd* points, const Eigen::VectorXd* target, Eigen::VectorXd gamma, double l2)
      : points_(points), target_(target), gamma_(std::move(gamma)), l2_(l2) {}

  const Eigen::MatrixXd* points_;
  const Eigen::VectorXd* target_;
  Eigen::VectorXd gamma_;
  double l2_;
  Eigen::MatrixXd kernel_;  // K, n x n.
  // -dK/dlambda with one gamma, entries gamma d_ik K_ik. With several gammas it is the sum over all of them, whose norm
  // bounds the norm of each.
  Eigen::MatrixXd slope_;
  std::optional<math::Cholesky> factor_;
  bool tried_factor_ = false;
  bool singular_ = false;
  Eigen::VectorXd x_;
};

// Mean squared error of predictions sum_k c_k k(b, a_k) at held-out points. It depends on gamma directly, too.
class KernelRidgeOuter final : public OuterLoss {
 public:
  // `points` (n x p) are those of the inner problem; `held_out` (m x p, m >= 1) and `target` (m); all must outlive
  // this. `distances`: those of held_out and points with gamma = 1, or null.
  static absl::StatusOr<KernelRidgeOuter> Create(const Eigen::MatrixXd* points, const Eigen::MatrixXd* held_out,
                                                 const Eigen::VectorXd* target, const Eigen::MatrixXd* distances,
                                                 Eigen::VectorXd gamma, const base::StopToken& stop);

  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  double GradientLipschitz() override;
  absl::StatusOr<Eigen::VectorXd> DirectGradient(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  double DirectError(const Eigen::VectorXd& x, double distance) override;
  // Returns the predictions at the held-out points.
  Eigen::VectorXd Predict(const Eigen::VectorXd& x) const { return kernel_ * x; }

 private:
  KernelRidgeOuter(const Eigen::MatrixXd* points, const Eigen::MatrixXd* held_out, const Eigen::VectorXd* target,
                   Eigen::VectorXd gamma)
      : points_(points), held_out_(held_out), target_(target), gamma_(std::move(gamma)) {}

  const Eigen::MatrixXd* points_;
  const Eigen::MatrixXd* held_out_;
  const Eigen::VectorXd* target_;
  Eigen::VectorXd gamma_;
  Eigen::MatrixXd kernel_;  // m x n.
  Eigen::MatrixXd slope_;   // m x n, as in KernelRidgeInner.
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_KERNEL_RIDGE_H_
