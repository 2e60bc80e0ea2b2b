#ifndef LUTHIER_LIB_BILEVEL_CHAIN_INNER_H_
#define LUTHIER_LIB_BILEVEL_CHAIN_INNER_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/crf/solvers/problem.h"

namespace luthier::bilevel {

// A linear-chain conditional random field with one hyperparameter lambda_g = ln l2_g for each group of rows of its
// weights (rows of attributes, then those of the transitions, as crf::Shape has them):
//   h(w, lambda) = sum_i nll_i(w) + 1/2 sum_r e^lambda_g(r) |w_r|^2,  D_g = e^lambda_g w restricted to the rows of g.
// mu = min e^lambda is a true bound, for the sum of the nll is convex. No bounds of its third derivatives are known
// here, so nothing is certified.
class ChainInner final : public InnerProblem {
 public:
  // `data` must outlive this and have known labels only. `row_group` has the group of each attribute; if it is empty,
  // all are in `transitions_group`, the group of the transitions. `l2` has the penalty of each group, > 0.
  ChainInner(const crf::ChainData* data, std::vector<int32_t> row_group, int32_t transitions_group,
             std::vector<double> l2, const crf::Kernels& kernels);

  Eigen::Index dim() const override { return static_cast<Eigen::Index>(data_->shape().dim()); }
  Eigen::Index hyper_dim() const override { return static_cast<Eigen::Index>(l2_.size()); }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  // Costs about three gradients.
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  // Returns sums of q (1 - q) over tokens, as if the labels of different tokens were independent. This is not the true
  // diagonal, but positive and near it. Costs a gradient.
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  int32_t GroupOf(int64_t row) const {
    return row < static_cast<int64_t>(row_group_.size()) ? row_group_[static_cast<size_t>(row)] : transitions_group_;
  }
  // Returns for each group the sum of its entries of `terms` (dim()).
  Eigen::VectorXd Sums(const Eigen::VectorXd& terms) const;

  const crf::ChainData* const data_;
  const std::vector<int32_t> row_group_;
  const int32_t transitions_group_;
  const std::vector<double> l2_;
  crf::ChainLoss loss_;
  Eigen::VectorXd penalty_;  // Penalty of each weight.
  Eigen::VectorXd x_;
};

// Mean negative log-likelihood in nats a token of held-out sequences, without those that have labels unknown to
// training, as the metric validation_loss. `data` must outlive this.
class ChainOuter final : public OuterLoss {
 public:
  ChainOuter(const crf::ChainData* data, const crf::Kernels& kernels);

  int64_t known_tokens() const { return tokens_; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  // Returns infinity: no bound is known here.
  double GradientLipschitz() override;

 private:
  crf::ChainLoss loss_;
  std::vector<int32_t> rows_;  // Sequences without unknown labels.
  int64_t tokens_ = 0;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_CHAIN_INNER_H_
