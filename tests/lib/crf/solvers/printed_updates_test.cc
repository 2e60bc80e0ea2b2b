// The average gradient methods against themselves as they are written down: dense vectors, gradients of one sequence by
// ChainLoss, a line search that evaluates the loss at w - g / L. So the lazy rows, the memory, the search without
// weights and the factors of each form are what they should be, for every sampling and step rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/random.h"
#include "lib/crf/solvers/average_gradient.h"
#include "lib/crf/solvers/problem.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::AverageForm;
using testing::RandomChains;

class Printed {
 public:
  Printed(const ChainData& data, double l2, const AverageGradientOptions& options)
      : options_(options),
        lambda_(l2 / static_cast<double>(data.sequences())),
        loss_(&data),
        sampler_(options.sampling, data.sequences(), options.seed, 1.0, lambda_),
        w_(VectorXd::Zero(loss_.dim())),
        d_(w_) {}

  void Step() {
    ++iterations_;
    const stochastic::Sampler::Draw draw = sampler_.Next();
    VectorXd g;
    const double f = LossAt(draw.index, w_, &g);
    const bool second = RemembersSecond(options_.method), literal = IsLiteral(options_.method);
    // Algorithm 1 replaces g_i before the search, algorithms 3 and 4 after it.
    const bool remembered = options_.search_remembered && options_.method != AverageMethod::kSag;
    const double constant = Search(draw, f, remembered ? Remembered(draw.index) : g);
    sampler_.SetConstant(draw.index, constant);
    const double n = static_cast<double>(loss_.data().sequences()), seen = static_cast<double>(sampler_.seen());
    double l_max = sampler_.max_constant();
    if (options_.step == StepRule::kPort) {
      l_max = running_max_ = std::max(running_max_, constant);
      running_max_ *= std::pow(2.0, -1.0 / n);
    }
    const double step =
        stochastic::StepSize(options_.step, options_.constant_step, l_max, sampler_.mean_constant(), lambda_, seen / n);
    const VectorXd change = g - Remembered(draw.index);
    const VectorXd shrunk = (1.0 - step * lambda_) * w_;
    if (options_.method == AverageMethod::kSag) {
      d_ += change;
      memory_[draw.index] = g;
      w_ = shrunk - step / Stored() * d_;
      return;
    }
    double own = std::max(draw.scaled_probability, 0.05), common = 1.0;
    if (literal) own = common = seen * constant / (sampler_.mean_constant() * seen);  // m L_i / sum L
    if (!second) memory_[draw.index] = g;
    const double m = literal ? seen : std::max(1.0, Stored());
    w_ = shrunk - step * (change / own + d_ / (common * m));
    if (!second) {
      d_ += change;
      return;
    }
    base::RandomStream stream(options_.seed, "stochastic.second", iterations_);
    const auto j = static_cast<int64_t>(stream.UniformInt(static_cast<uint64_t>(loss_.data().sequences())));
    LossAt(j, w_, &g);
    d_ += g - Remembered(j);
    memory_[j] = g;
  }

  const VectorXd& w() const { return w_; }
  double max_constant() const { return iterations_ == 0 ? 0.0 : sampler_.max_constant(); }

 private:
  // Algorithm 2, which need not end along a remembered gradient: up to where losses have no more digits.
  double Search(const stochastic::Sampler::Draw& draw, double f, const VectorXd& g) {
    double constant = sampler_.StartConstant(draw);
    const double norm2 = g.squaredNorm(), digits = 1e-13 * (1.0 + std::abs(f));
    if (norm2 <= 1e-8) return constant;
    while (LossAt(draw.index, w_ - g / constant, nullptr) > f - 0.5 * norm2 / constant + digits) constant *= 2.0;
    return constant;
  }
  double Stored() const { return static_cast<double>(memory_.size()); }
  VectorXd Remembered(int64_t i) const {
    const auto found = memory_.find(i);
    return found == memory_.end() ? VectorXd(VectorXd::Zero(w_.size())) : found->second;
  }
  double LossAt(int64_t i, const VectorXd& w, VectorXd* gradient) {
    const auto row = static_cast<int32_t>(i);
    VectorXd unused = VectorXd::Zero(w.size());
    if (gradient != nullptr) *gradient = unused;
    return loss_.AddSubset(&row, 1, w, gradient == nullptr ? &unused : gradient).value();
  }

  const AverageGradientOptions options_;
  const double lambda_;
  ChainLoss loss_;
  stochastic::Sampler sampler_;
  double running_max_ = 1.0;
  VectorXd w_, d_;
  std::map<int64_t, VectorXd> memory_;
  uint64_t iterations_ = 0;
};

// Those of Ahmed 2018 and those to compare with.
std::vector<AverageForm> AllForms() {
  std::vector<AverageForm> forms;
  for (size_t m = 0; m < AverageMethodNames().size(); ++m) {
    const auto method = static_cast<AverageMethod>(m);
    for (size_t s = 0; s < stochastic::SamplingNames().size(); ++s) {
      const auto sampling = static_cast<Sampling>(s);
      for (size_t r = 0; r < stochastic::StepRuleNames().size(); ++r) {
        forms.push_back({method, sampling, static_cast<StepRule>(r)});
      }
      forms.push_back({method, sampling, StepRule::kHedge, true});
    }
  }
  return forms;
}

// Three passes, before the combinations that diverge have grown what rounding to float leaves.
TEST(PrintedUpdatesTest, AreWhatTheLazyOnesDo) {
  const ChainData data = testing::WithValues(RandomChains(21, 4, 30, 6, 12), 3);
  for (const AverageForm& form : AllForms()) {
    AverageGradientOptions options = form.Options(5);
    options.constant_step = 0.05;
    options.skip_checks = false;
    AverageGradient lazy = AverageGradient::Create(&data, 3.0, options).value();
    Printed printed(data, 3.0, options);
    const int64_t iterations = 3 * data.sequences();
    for (int64_t k = 0; k < iterations; ++k) {
      // A search along a remembered gradient need not end before losses have no more digits: how far it goes then, and
      // what the quotients of such constants are, is up to rounding.
      if (form.search_remembered && printed.max_constant() > 1e9) break;
      printed.Step();
      ASSERT_EQ(lazy.Advance(1, {}).value(), SolverState::kRunning);
    }
    const double size = printed.w().lpNorm<Eigen::Infinity>();
    EXPECT_LT((lazy.Weights() - printed.w()).lpNorm<Eigen::Infinity>(), 1e-5 * (1.0 + size)) << testing::Describe(form);
    EXPECT_GT(size, 1e-2);
  }
}

}  // namespace
}  // namespace luthier::crf
