#include "lib/crf/proximal_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/crf/problem.h"
#include "lib/crf/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using stochastic::Sampling;
using stochastic::StepRule;
using testing::RandomChains;

VectorXd Soft(const VectorXd& z, double threshold) {
  return (z.array().abs() - threshold).max(0.0) * z.array().sign();
}

// FISTA on the whole problem with a backtracked step and restarts (Beck & Teboulle 2009; O'Donoghue & Candes 2015).
VectorXd Oracle(const ChainData& data, double l1, double l2) {
  ChainLoss loss(&data);
  const ChainProblem h(&loss, l2);
  VectorXd w = VectorXd::Zero(loss.dim()), z = w, gradient, unused;
  double constant = 1.0, momentum = 1.0;
  for (int k = 0; k < 5000; ++k) {
    const double value = h.Value(z, &gradient);
    VectorXd next;
    while (true) {
      next = Soft(z - gradient / constant, l1 / constant);
      const VectorXd step = next - z;
      const double bound = value + gradient.dot(step) + 0.5 * constant * step.squaredNorm();
      if (h.Value(next, nullptr) <= bound + 1e-12 * std::abs(value)) break;
      constant *= 2.0;
    }
    if ((z - next).dot(next - w) > 0.0) momentum = 1.0;
    const double grown = 0.5 * (1.0 + std::sqrt(1.0 + 4.0 * momentum * momentum));
    z = next + (momentum - 1.0) / grown * (next - w);
    momentum = grown;
    w = next;
    h.Value(w, &gradient);
    if (SmallestSubgradient(w, gradient, l1) < 1e-9) break;
  }
  return w;
}

ProximalOptions Options(AverageMethod method, Sampling sampling, StepRule step) {
  ProximalOptions options;
  options.average.method = method;
  options.average.sampling = sampling;
  options.average.step = step;
  options.average.seed = 3;
  return options;
}

TEST(ProximalAverageTest, FindsTheOptimumWithItsZeros) {
  const ChainData data = RandomChains(1, 4, 60, 8, 15);
  for (const double l2 : {1.0, 0.05}) {
    for (const double l1 : {0.5, 8.0}) {
      const VectorXd truth = Oracle(data, l1, l2);
      ChainLoss loss(&data);
      const ChainProblem h(&loss, l2);
      const double optimum = h.Value(truth, nullptr) + l1 * truth.lpNorm<1>();
      for (const ProximalOptions& options : {Options(AverageMethod::kSaga, Sampling::kMixed, StepRule::kLmax),
                                             Options(AverageMethod::kSaga, Sampling::kUniform, StepRule::kLmax),
                                             Options(AverageMethod::kSag, Sampling::kMixed, StepRule::kHedge)}) {
        ProximalAverage solver = ProximalAverage::Create(&data, l1, l2, options).value();
        ASSERT_EQ(solver.Advance(1000 * data.sequences(), nullptr), SolverState::kRunning);
        const VectorXd w = solver.Weights();
        VectorXd gradient;
        const double value = h.Value(w, &gradient) + l1 * w.lpNorm<1>();
        EXPECT_NEAR(value, optimum, 1e-8 * optimum) << l1 << " " << l2;
        EXPECT_LT(SmallestSubgradient(w, gradient, l1), 1e-4);
        EXPECT_NEAR(solver.GradientEstimate(), SmallestSubgradient(w, gradient, l1), 1e-3);
        EXPECT_EQ((w.array() != 0.0).count(), (truth.array() != 0.0).count());
      }
      // Not all, and with a strong penalty only few weights are there.
      EXPECT_GT((truth.array() != 0.0).count(), 0);
      if (l1 > 1.0) {
        EXPECT_LT((truth.array() != 0.0).count(), data.shape().parameters() / 2);
      }
    }
  }
}

// All rows brought up to date in each iteration, or in each third, or as late as possible.
TEST(ProximalAverageTest, LazinessIsExact) {
  // Many attributes, few of them in a sequence; penalties so strong that weights come and go.
  const ChainData data = RandomChains(2, 5, 50, 6, 60, 0.03);
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga}) {
    for (const double l1 : {0.0, 0.3, 2.0}) {
      for (const double l2 : {0.0, 2.0}) {
        ProximalOptions options = Options(method, Sampling::kUniform, StepRule::kLmax);
        std::vector<VectorXd> weights;
        for (const int64_t flush_every : {1, 3, 1000}) {
          options.flush_every = flush_every;
          ProximalAverage solver = ProximalAverage::Create(&data, l1, l2, options).value();
          ASSERT_EQ(solver.Advance(333, nullptr), SolverState::kRunning);
          weights.push_back(solver.Weights());
        }
        const double scale = 1.0 + weights[0].norm();
        EXPECT_LT((weights[0] - weights[1]).norm(), 1e-9 * scale) << l1 << " " << l2;
        EXPECT_LT((weights[0] - weights[2]).norm(), 1e-9 * scale) << l1 << " " << l2;
        const auto support = [](const VectorXd& w) { return (w.array() != 0.0).count(); };
        EXPECT_EQ(support(weights[0]), support(weights[2]));
        if (l1 > 1.0) {
          EXPECT_LT(support(weights[0]), data.shape().parameters() * 3 / 4);
        }
      }
    }
  }
}

TEST(ProximalAverageTest, WithoutL1ItIsTheSmoothMethod) {
  const ChainData data = RandomChains(3, 4, 50, 7, 20);
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga}) {
    ProximalOptions options = Options(method, Sampling::kMixed, StepRule::kHedge);
    ProximalAverage proximal = ProximalAverage::Create(&data, 0.0, 2.0, options).value();
    AverageGradient smooth = AverageGradient::Create(&data, 2.0, options.average).value();
    proximal.Advance(400, nullptr);
    smooth.Advance(400, nullptr);
    EXPECT_LT((proximal.Weights() - smooth.Weights()).norm(), 1e-8 * (1.0 + smooth.Weights().norm()));
    EXPECT_EQ(proximal.passes(), smooth.passes());
  }
}

TEST(ProximalAverageTest, ResumingAndLookingGiveTheSameBits) {
  const ChainData data = RandomChains(4, 4, 50, 8, 30, 0.1);
  for (const ChainMethod method : {ChainMethod::kSag, ChainMethod::kSaga}) {
    for (const MemoryMode memory : {MemoryMode::kMixed, MemoryMode::kSparse}) {
      ChainTrainerOptions options;
      options.method = method;
      options.average.memory = memory;
      options.l1 = 0.5;
      options.max_passes = 15.0;
      options.tolerance = 0.0;
      ChainTrainer whole = ChainTrainer::Create(&data, 1.0, options).value();
      while (whole.Advance(nullptr) == ChainOutcome::kRunning) continue;
      ChainTrainer first = ChainTrainer::Create(&data, 1.0, options).value();
      for (int k = 0; k < 5; ++k) {
        first.Advance(nullptr);
        first.Weights();
      }
      learn::CheckpointWriter writer("test/1");
      first.Save(&writer, "id");
      const std::string bytes = std::move(writer).Finish();
      learn::CheckpointReader reader = learn::CheckpointReader::Open(bytes, "test/1").value();
      ChainTrainer resumed = ChainTrainer::Create(&data, 1.0, options).value();
      ASSERT_TRUE(resumed.Load(&reader, "id").ok());
      EXPECT_TRUE(reader.Done());
      while (resumed.Advance(nullptr) == ChainOutcome::kRunning) continue;
      EXPECT_EQ(resumed.Weights(), whole.Weights());
    }
  }
}

TEST(ProximalAverageTest, TheTrainerStopsWhereTheSubgradientIsSmall) {
  const ChainData data = RandomChains(5, 4, 50, 8, 15);
  ChainTrainerOptions options;
  options.method = ChainMethod::kSaga;
  options.average.step = StepRule::kLmax;
  options.l1 = 1.0;
  options.max_passes = 2000.0;
  ChainTrainer trainer = ChainTrainer::Create(&data, 0.5, options).value();
  while (trainer.Advance(nullptr) == ChainOutcome::kRunning) continue;
  EXPECT_EQ(trainer.outcome(), ChainOutcome::kConverged);
  options.method = ChainMethod::kLbfgs;
  const absl::Status refused = ChainTrainer::Create(&data, 0.5, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("l1 > 0 needs solver sag or saga; this is lbfgs"));
}

}  // namespace
}  // namespace luthier::crf
