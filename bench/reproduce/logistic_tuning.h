#ifndef LUTHIER_BENCH_REPRODUCE_LOGISTIC_TUNING_H_
#define LUTHIER_BENCH_REPRODUCE_LOGISTIC_TUNING_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"

namespace luthier::reproduce {

// Multinomial logistic regression by plain stochastic gradient descent, as a task for tuning: test loss against l2
// penalty, step size and number of passes (Wu et al. 2017, "Bayesian optimization with gradients", tune it on MNIST).
// Here the data are made up: `classes` Gaussian clouds of unit deviation in `features` dimensions, 80 % for training.
// Nothing is random but the data and the order of the rows in each pass, both fixed by the seed. Immutable; any thread.
class LogisticTuning {
 public:
  static constexpr int kRows = 2000, kFeatures = 64, kClasses = 10;

  explicit LogisticTuning(uint64_t seed);

  // Mean negative log likelihood (nats) on the test rows after `passes` passes at constant step from zero weights:
  //   W <- (1 - step l2) W - step (softmax(W x) - e_label) x'
  // l2, step >= 0, step l2 < 1, 0 <= passes <= 15. Infinite where the weights overflow.
  double TestLoss(double l2, double step, int passes) const;

 private:
  Eigen::MatrixXd train_, test_;  // features + 1 x rows; the last row is 1, its weights are penalised too.
  std::vector<int> train_labels_, test_labels_;
  std::vector<std::vector<int>> orders_;  // Of the training rows, one a pass.
};

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_LOGISTIC_TUNING_H_
