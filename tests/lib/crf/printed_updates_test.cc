// The average gradient methods against themselves as they are written down: dense vectors, gradients of one sequence by
// ChainLoss, a line search that evaluates the loss at w - g / L. So the lazy rows, the memory, the search without
// weights and the factors of each form are what they should be, for every sampling and step rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/random.h"
#include "lib/crf/average_gradient.h"
#include "lib/crf/problem.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using stochastic::Sampling;
using stochastic::StepRule;
using testing::RandomChains;

class Printed {
 public:
  Printed(const ChainData& data, double l2, const AverageGradientOptions& options)
      : options_(options),
        lambda_(l2 / static_cast<double>(data.sequences())),
        loss_(&data),
        sampler_(options.sampling, data.sequences(), options.seed),
        w_(VectorXd::Zero(loss_.dim())),
        d_(w_) {}

  void Step() {
    ++iterations_;
    const stochastic::Sampler::Draw draw = sampler_.Next();
    VectorXd g;
    const double f = LossAt(draw.index, w_, &g);
    double constant = sampler_.StartConstant(draw);
    if (g.squaredNorm() > 1e-8) {
      while (LossAt(draw.index, w_ - g / constant, nullptr) > f - 0.5 * g.squaredNorm() / constant) constant *= 2.0;
    }
    sampler_.SetConstant(draw.index, constant);
    const double step = stochastic::StepSize(options_.step, options_.constant_step, sampler_.max_constant(),
                                             sampler_.mean_constant(), lambda_);
    const VectorXd change = g - Remembered(draw.index);
    const VectorXd shrunk = (1.0 - step * lambda_) * w_;
    if (options_.method == AverageMethod::kSag) {
      d_ += change;
      memory_[draw.index] = g;
      w_ = shrunk - step / Stored() * d_;
      return;
    }
    double own = std::max(draw.scaled_probability, 0.05), common = 1.0;
    if (options_.method == AverageMethod::kSagaLiteral) own = common = constant / sampler_.mean_constant();
    if (options_.method != AverageMethod::kSaga2) memory_[draw.index] = g;
    w_ = shrunk - step * (change / own + d_ / (common * std::max(1.0, Stored())));
    if (options_.method != AverageMethod::kSaga2) {
      d_ += change;
      return;
    }
    base::RandomStream second(options_.seed, "stochastic.second", iterations_);
    const auto j = static_cast<int64_t>(second.UniformInt(static_cast<uint64_t>(loss_.data().sequences())));
    LossAt(j, w_, &g);
    d_ += g - Remembered(j);
    memory_[j] = g;
  }

  const VectorXd& w() const { return w_; }

 private:
  double Stored() const { return static_cast<double>(memory_.size()); }
  VectorXd Remembered(int64_t i) const {
    const auto found = memory_.find(i);
    return found == memory_.end() ? VectorXd(VectorXd::Zero(w_.size())) : found->second;
  }
  double LossAt(int64_t i, const VectorXd& w, VectorXd* gradient) {
    const auto row = static_cast<int32_t>(i);
    VectorXd unused = VectorXd::Zero(w.size());
    if (gradient != nullptr) *gradient = unused;
    return loss_.AddSubset(&row, 1, w, gradient == nullptr ? &unused : gradient);
  }

  const AverageGradientOptions options_;
  const double lambda_;
  ChainLoss loss_;
  stochastic::Sampler sampler_;
  VectorXd w_, d_;
  std::map<int64_t, VectorXd> memory_;
  uint64_t iterations_ = 0;
};

struct Form {
  AverageMethod method;
  Sampling sampling;
  StepRule step;
};

std::vector<Form> AllForms() {
  std::vector<Form> forms;
  for (const AverageMethod method :
       {AverageMethod::kSag, AverageMethod::kSaga, AverageMethod::kSagaLiteral, AverageMethod::kSaga2}) {
    for (const Sampling sampling : {Sampling::kUniform, Sampling::kPermutation, Sampling::kCyclic, Sampling::kCyclic2,
                                    Sampling::kLipschitz, Sampling::kMixed}) {
      for (const StepRule step : {StepRule::kConstant, StepRule::kLmean, StepRule::kLmax, StepRule::kHedge,
                                  StepRule::kOptimum, StepRule::kAverageOptimum1, StepRule::kAverageOptimum2}) {
        forms.push_back({method, sampling, step});
      }
    }
  }
  return forms;
}

// Three passes, before the combinations that diverge have grown what rounding to float leaves.
TEST(PrintedUpdatesTest, AreWhatTheLazyOnesDo) {
  const ChainData data = testing::WithValues(RandomChains(21, 4, 30, 6, 12), 3);
  for (const Form& form : AllForms()) {
    AverageGradientOptions options;
    options.method = form.method;
    options.sampling = form.sampling;
    options.step = form.step;
    options.constant_step = 0.05;
    options.skip_checks = false;
    options.seed = 5;
    AverageGradient lazy = AverageGradient::Create(&data, 3.0, options).value();
    Printed printed(data, 3.0, options);
    const int64_t iterations = 3 * data.sequences();
    ASSERT_EQ(lazy.Advance(iterations, nullptr), SolverState::kRunning);
    for (int64_t k = 0; k < iterations; ++k) printed.Step();
    const double size = printed.w().lpNorm<Eigen::Infinity>();
    EXPECT_LT((lazy.Weights() - printed.w()).lpNorm<Eigen::Infinity>(), 1e-5 * (1.0 + size))
        << AverageMethodNames()[static_cast<size_t>(form.method)] << " "
        << stochastic::SamplingNames()[static_cast<size_t>(form.sampling)] << " "
        << stochastic::StepRuleNames()[static_cast<size_t>(form.step)];
    EXPECT_GT(size, 1e-2);
  }
}

}  // namespace
}  // namespace luthier::crf
