#include "bench/reproduce/logistic_tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/base/check.h"
#include "lib/base/random.h"

namespace luthier::reproduce {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kMaxPasses = 15;
// Distance scale of the classes' centres: the best loss is then well above 0, and regularisation has something to do.
constexpr double kSpread = 0.25;

}  // namespace

LogisticTuning::LogisticTuning(uint64_t seed) {
  base::RandomStream random(seed, "reproduce/logistic");
  MatrixXd centres(kFeatures, kClasses);
  for (Index k = 0; k < centres.cols(); ++k) {
    for (Index j = 0; j < kFeatures; ++j) centres(j, k) = kSpread * random.Normal();
  }
  const Index train = kRows * 4 / 5;
  train_ = MatrixXd::Ones(kFeatures + 1, train);
  test_ = MatrixXd::Ones(kFeatures + 1, kRows - train);
  for (Index i = 0; i < kRows; ++i) {
    const int label = static_cast<int>(random.UniformInt(kClasses));
    VectorXd x(kFeatures);
    for (Index j = 0; j < kFeatures; ++j) x(j) = centres(j, label) + random.Normal();
    if (i < train) {
      train_.col(i).head(kFeatures) = x;
      train_labels_.push_back(label);
    } else {
      test_.col(i - train).head(kFeatures) = x;
      test_labels_.push_back(label);
    }
  }
  for (uint64_t pass = 0; pass < kMaxPasses; ++pass) {
    std::vector<int> order(static_cast<size_t>(train));
    std::iota(order.begin(), order.end(), 0);
    base::RandomStream shuffle(seed, "reproduce/logistic/order", pass);
    shuffle.Shuffle(order);
    orders_.push_back(std::move(order));
  }
}

double LogisticTuning::TestLoss(double l2, double step, int passes) const {
  LUTHIER_CHECK(passes >= 0 && passes <= kMaxPasses);
  // The weights are `scale` times these: shrinking them all costs nothing. Columns are classes.
  MatrixXd weights = MatrixXd::Zero(kFeatures + 1, kClasses);
  double scale = 1.0;
  VectorXd p(kClasses);
  for (int pass = 0; pass < passes; ++pass) {
    for (int i : orders_[static_cast<size_t>(pass)]) {
      for (Index k = 0; k < kClasses; ++k) p(k) = scale * weights.col(k).dot(train_.col(i));
      p = (p.array() - p.maxCoeff()).exp();
      p /= p.sum();
      p(train_labels_[static_cast<size_t>(i)]) -= 1.0;
      scale *= 1.0 - step * l2;
      p *= step / scale;
      for (Index k = 0; k < kClasses; ++k) weights.col(k) -= p(k) * train_.col(i);
    }
    weights *= scale;
    scale = 1.0;
  }
  double loss = 0.0;
  for (Index i = 0; i < test_.cols(); ++i) {
    p.noalias() = weights.transpose() * test_.col(i);
    const double top = p.maxCoeff();
    loss += top + std::log((p.array() - top).exp().sum()) - p(test_labels_[static_cast<size_t>(i)]);
  }
  loss /= static_cast<double>(test_.cols());
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

}  // namespace luthier::reproduce
