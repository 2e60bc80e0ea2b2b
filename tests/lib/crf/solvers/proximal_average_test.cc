#include "lib/crf/solvers/proximal_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/status/status.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using stochastic::Sampling;
using stochastic::StepRule;
using testing::RandomChains;

VectorXd Soft(const VectorXd& z, const VectorXd& thresholds) {
  return (z.array().abs() - thresholds.array()).max(0.0) * z.array().sign();
}

// Of each weight.
VectorXd EachStrength(const ChainData& data, const L1Penalty& l1) {
  VectorXd each(data.shape().dim());
  for (Eigen::Index j = 0; j < each.size(); ++j) each[j] = l1.Of(j / data.shape().stride());
  return each;
}

// FISTA on the whole problem with a backtracked step and restarts (Beck & Teboulle 2009; O'Donoghue & Candes 2015).
VectorXd Oracle(const ChainData& data, const VectorXd& l1, double l2) {
  ChainLoss loss(&data);
  const ChainProblem h(&loss, l2);
  VectorXd w = VectorXd::Zero(loss.dim()), z = w, gradient, unused;
  double constant = 1.0, momentum = 1.0;
  for (int k = 0; k < 5000; ++k) {
    const double value = h.Value(z, &gradient).value();
    VectorXd next;
    while (true) {
      next = Soft(z - gradient / constant, l1 / constant);
      const VectorXd step = next - z;
      const double bound = value + gradient.dot(step) + 0.5 * constant * step.squaredNorm();
      if (h.Value(next, nullptr).value() <= bound + 1e-12 * std::abs(value)) break;
      constant *= 2.0;
    }
    if ((z - next).dot(next - w) > 0.0) momentum = 1.0;
    const double grown = 0.5 * (1.0 + std::sqrt(1.0 + 4.0 * momentum * momentum));
    z = next + (momentum - 1.0) / grown * (next - w);
    momentum = grown;
    w = next;
    h.Value(w, &gradient).value();
    // At its optimum a step of length 1 leads nowhere.
    if ((Soft(w - gradient, l1) - w).lpNorm<Eigen::Infinity>() < 1e-9) break;
  }
  return w;
}

ProximalOptions MethodOptions(AverageMethod method, Sampling sampling, StepRule step) {
  ProximalOptions options;
  options.average.method = method;
  options.average.sampling = sampling;
  options.average.step = step;
  options.average.seed = 3;
  return options;
}

// Rows without l1, with weak ones, and one that leaves nothing of some.
L1Penalty Uneven(const ChainData& data) {
  const double penalties[] = {0.5, 0.0, 6.0, 1.5, 1000.0};
  std::vector<double> rows;
  for (int32_t a = 0; a < data.attributes; ++a) rows.push_back(penalties[a % 5]);
  return {std::move(rows), 3.0};
}

TEST(ProximalAverageTest, FindsTheOptimumWithItsZeros) {
  const ChainData data = RandomChains(1, 4, 60, 8, 15);
  const int stride = data.shape().stride();
  for (const double l2 : {1.0, 0.05}) {
    for (const L1Penalty& l1 : {L1Penalty(0.5), L1Penalty(8.0), Uneven(data)}) {
      const VectorXd each = EachStrength(data, l1);
      const VectorXd truth = Oracle(data, each, l2);
      ChainLoss loss(&data);
      const ChainProblem h(&loss, l2);
      const double optimum = h.Value(truth, nullptr).value() + each.dot(truth.cwiseAbs());
      for (const ProximalOptions& options : {MethodOptions(AverageMethod::kSaga, Sampling::kMixed, StepRule::kLmax),
                                             MethodOptions(AverageMethod::kSaga, Sampling::kUniform, StepRule::kLmax),
                                             MethodOptions(AverageMethod::kSag, Sampling::kMixed, StepRule::kHedge)}) {
        ProximalAverage solver = ProximalAverage::Create(&data, l1, l2, options).value();
        ASSERT_EQ(solver.Advance(1000 * data.sequences(), {}).value(), SolverState::kRunning);
        const VectorXd w = solver.Weights();
        VectorXd gradient;
        const double value = h.Value(w, &gradient).value() + each.dot(w.cwiseAbs());
        EXPECT_NEAR(value, optimum, 1e-8 * optimum) << l1.transitions() << " " << l2;
        EXPECT_LT(SmallestSubgradient(w, gradient, l1, stride), 1e-4);
        EXPECT_NEAR(solver.GradientEstimate(), SmallestSubgradient(w, gradient, l1, stride), 1e-3);
        EXPECT_EQ((w.array() != 0.0).cast<int>().matrix(), (truth.array() != 0.0).cast<int>().matrix());
      }
      // Not all, and with a strong penalty only few weights are there.
      EXPECT_GT((truth.array() != 0.0).count(), 0);
      if (l1.transitions() > 1.0) {
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
    for (const L1Penalty& l1 : {L1Penalty(0.0), L1Penalty(0.3), L1Penalty(2.0), Uneven(data)}) {
      for (const double l2 : {0.0, 2.0}) {
        ProximalOptions options = MethodOptions(method, Sampling::kUniform, StepRule::kLmax);
        std::vector<VectorXd> weights;
        for (const int64_t flush_every : {1, 3, 1000}) {
          options.flush_every = flush_every;
          ProximalAverage solver = ProximalAverage::Create(&data, l1, l2, options).value();
          ASSERT_EQ(solver.Advance(333, {}).value(), SolverState::kRunning);
          weights.push_back(solver.Weights());
        }
        const double scale = 1.0 + weights[0].norm();
        EXPECT_LT((weights[0] - weights[1]).norm(), 1e-9 * scale) << l1.transitions() << " " << l2;
        EXPECT_LT((weights[0] - weights[2]).norm(), 1e-9 * scale) << l1.transitions() << " " << l2;
        const auto support = [](const VectorXd& w) { return (w.array() != 0.0).count(); };
        EXPECT_EQ(support(weights[0]), support(weights[2]));
        if (l1.transitions() > 1.0) {
          EXPECT_LT(support(weights[0]), data.shape().parameters() * 3 / 4);
        }
      }
    }
  }
}

TEST(ProximalAverageTest, TheSubgradientIsThatOfEachRow) {
  // Rows of two: a weight above, below and at zero, and what is inside of its penalty.
  const VectorXd w = (VectorXd(6) << 1.0, -2.0, 0.0, 0.0, 3.0, 0.0).finished();
  const VectorXd gradient = (VectorXd(6) << -0.5, 0.5, 4.0, -1.0, -7.0, 6.9).finished();
  EXPECT_DOUBLE_EQ(SmallestSubgradient(w, gradient, L1Penalty({0.5, 4.0}, 7.0), 2), 0.0);
  EXPECT_DOUBLE_EQ(SmallestSubgradient(w, gradient, L1Penalty({0.6, 4.0}, 7.0), 2), 0.1);
  EXPECT_DOUBLE_EQ(SmallestSubgradient(w, gradient, L1Penalty({0.5, 1.0}, 7.0), 2), 3.0);
  EXPECT_DOUBLE_EQ(SmallestSubgradient(w, gradient, L1Penalty({0.5, 4.0}, 6.0), 2), 1.0);
  EXPECT_DOUBLE_EQ(SmallestSubgradient(w, gradient, 0.0, 2), 7.0);
  EXPECT_FALSE(L1Penalty().any());
  EXPECT_TRUE(L1Penalty({0.0, 1.0}, 0.0).any());
}

// One penalty said for each row is the same, bit for bit.
TEST(ProximalAverageTest, EqualStrengthsAreOne) {
  const ChainData data = RandomChains(3, 4, 50, 7, 20);
  const ProximalOptions options = MethodOptions(AverageMethod::kSaga, Sampling::kMixed, StepRule::kLmax);
  ProximalAverage one = ProximalAverage::Create(&data, 0.7, 1.0, options).value();
  const L1Penalty all(std::vector<double>(20, 0.7), 0.7);
  ProximalAverage each = ProximalAverage::Create(&data, all, 1.0, options).value();
  for (ProximalAverage* solver : {&one, &each}) solver->Advance(500, {}).value();
  EXPECT_EQ(one.Weights(), each.Weights());
}

TEST(ProximalAverageTest, WithoutL1ItIsTheSmoothMethod) {
  const ChainData data = RandomChains(3, 4, 50, 7, 20);
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga}) {
    ProximalOptions options = MethodOptions(method, Sampling::kMixed, StepRule::kHedge);
    ProximalAverage proximal = ProximalAverage::Create(&data, 0.0, 2.0, options).value();
    AverageGradient smooth = AverageGradient::Create(&data, 2.0, options.average).value();
    proximal.Advance(400, {}).value();
    smooth.Advance(400, {}).value();
    EXPECT_LT((proximal.Weights() - smooth.Weights()).norm(), 1e-8 * (1.0 + smooth.Weights().norm()));
    EXPECT_EQ(proximal.passes(), smooth.passes());
  }
}

TEST(ProximalAverageTest, ResumingAndLookingGiveTheSameBits) {
  const ChainData data = RandomChains(4, 4, 50, 8, 30, 0.1);
  for (const std::string method : {"sag", "saga"}) {
    for (const MemoryMode memory : {MemoryMode::kMixed, MemoryMode::kSparse}) {
      ChainTrainerOptions options;
      options.method = method;
      options.average.memory = memory;
      options.l1 = memory == MemoryMode::kSparse ? Uneven(data) : 0.5;
      options.max_passes = 15.0;
      options.tolerance = 0.0;
      ChainTrainer whole = ChainTrainer::Create(&data, 1.0, options).value();
      while (whole.Advance({}).value() == ChainOutcome::kRunning) continue;
      ChainTrainer first = ChainTrainer::Create(&data, 1.0, options).value();
      for (int k = 0; k < 5; ++k) {
        first.Advance({}).value();
        first.Weights();
      }
      base::CheckpointWriter writer("test/1");
      first.Save(&writer, "id");
      const std::string bytes = std::move(writer).Finish();
      base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
      ChainTrainer resumed = ChainTrainer::Create(&data, 1.0, options).value();
      ASSERT_TRUE(resumed.Load(&reader, "id").ok());
      EXPECT_TRUE(reader.Done());
      while (resumed.Advance({}).value() == ChainOutcome::kRunning) continue;
      EXPECT_EQ(resumed.Weights(), whole.Weights());
    }
  }
}

TEST(ProximalAverageTest, TheTrainerStopsWhereTheSubgradientIsSmall) {
  const ChainData data = RandomChains(5, 4, 50, 8, 15);
  ChainTrainerOptions options;
  options.method = "saga";
  options.average.step = StepRule::kLmax;
  options.l1 = 1.0;
  options.max_passes = 2000.0;
  ChainTrainer trainer = ChainTrainer::Create(&data, 0.5, options).value();
  while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
  EXPECT_EQ(trainer.outcome(), ChainOutcome::kConverged);
  options.method = "lbfgs";
  const absl::Status refused = ChainTrainer::Create(&data, 0.5, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("l1 > 0 needs solver sag or saga; this is lbfgs"));
}

}  // namespace
}  // namespace luthier::crf
