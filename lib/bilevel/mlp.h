#ifndef LUTHIER_LIB_BILEVEL_MLP_H_
#define LUTHIER_LIB_BILEVEL_MLP_H_

#include <Eigen/Core>
#include <cstdint>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/bilevel/ridge.h"

// A network with one hidden layer for regression, whose inputs have weight decays of their own (Bengio 2000, section
// 4):
//   f(x) = v' tanh(W x + b) + v_0
//   h = 1/2 sum over rows (f(x~) - y)^2 + 1/2 sum_j l2_j |W_:j|^2 + 1/2 l2_out |v|^2
// with one hyperparameter lambda_g = ln l2_g for each penalty of the inputs. b and v_0 are not penalised. A large l2_j
// switches input j off.
namespace luthier::bilevel {

// The layout of the weights in one vector of units * (inputs + 2) + 1 entries: W by columns, b, v, v_0.
struct MlpShape {
  Eigen::Index inputs = 0;  // p
  Eigen::Index units = 0;   // Number of units of the hidden layer.

  Eigen::Index dim() const { return units * (inputs + 2) + 1; }
  Eigen::Index hidden_bias() const { return units * inputs; }
  Eigen::Index output() const { return units * (inputs + 1); }
  Eigen::Index output_bias() const { return units * (inputs + 2); }
};

// Returns random weights: normal with variance 1 / inputs for W and 1 / units for v, else 0.
Eigen::VectorXd StartMlp(const MlpShape& shape, uint64_t seed);

// Returns f at each row of `points` (n x p). Returns CANCELLED when stopped.
absl::StatusOr<Eigen::VectorXd> PredictMlp(const MlpShape& shape, const Eigen::VectorXd& weights,
                                           const Eigen::MatrixXd& points, const base::StopToken& stop);

// h is not convex: a point where its gradient vanishes need not be a minimum, and different starts end in different
// ones. Products with the Hessian are exact (Pearlmutter 1994) and cost about two gradients. There are no true bounds:
// Constants are not certified.
class MlpInner final : public InnerProblem {
 public:
  // `points` (n x p) and `target` (n) must outlive this. `l2`: penalty of each input, p entries > 0; l2_out > 0.
  MlpInner(MlpShape shape, const Eigen::MatrixXd* points, const Eigen::VectorXd* target, ColumnPenalties groups,
           Eigen::VectorXd l2, double l2_out);

  Eigen::Index dim() const override { return shape_.dim(); }
  Eigen::Index hyper_dim() const override { return groups_.count; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  // Returns the diagonal of the Gauss-Newton part, all entries > 0.
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  const MlpShape shape_;
  const Eigen::MatrixXd* const points_;
  const Eigen::VectorXd* const target_;
  const ColumnPenalties groups_;
  const Eigen::VectorXd l2_;
  const double l2_out_;
  Eigen::VectorXd x_;         // The point of SetPoint.
  Eigen::MatrixXd hidden_;    // tanh there, n x units.
  Eigen::VectorXd residual_;  // f - y there.
};

// Mean squared error over held-out rows. The arguments must outlive it.
class MlpOuter final : public OuterLoss {
 public:
  MlpOuter(MlpShape shape, const Eigen::MatrixXd* points, const Eigen::VectorXd* target)
      : shape_(shape), points_(points), target_(target) {}
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  double GradientLipschitz() override;

 private:
  const MlpShape shape_;
  const Eigen::MatrixXd* const points_;
  const Eigen::VectorXd* const target_;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_MLP_H_
