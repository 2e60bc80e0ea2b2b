#include "lib/crf/solvers/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/linear/lbfgs_solver.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::RandomChains;
using testing::RandomWeights;
using testing::WithValues;

// Attributes that a token has or has not, and attributes with values.
class ChainLossValuesTest : public ::testing::TestWithParam<bool> {
 protected:
  static ChainData Chains(uint64_t seed, int labels, int64_t sequences, int longest, int32_t attributes) {
    ChainData data = RandomChains(seed, labels, sequences, longest, attributes);
    return GetParam() ? WithValues(std::move(data), seed) : data;
  }
};
INSTANTIATE_TEST_SUITE_P(Attributes, ChainLossValuesTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& valued) {
                           return valued.param ? "Valued" : "Plain";
                         });

// The loss by going through all labelings.
double EnumeratedLoss(const ChainData& data, const VectorXd& w) {
  const Shape shape = data.shape();
  double loss = 0.0;
  for (int64_t i = 0; i < data.sequences(); ++i) {
    const int64_t first = data.sequence_start[static_cast<size_t>(i)];
    const int64_t T = data.length(i);
    const auto score = [&](const std::vector<int>& y) {
      double s = 0.0;
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t e = data.token_start[static_cast<size_t>(first + t)];
             e < data.token_start[static_cast<size_t>(first + t + 1)]; ++e) {
          s += data.Value(static_cast<size_t>(e)) *
               w[data.attribute[static_cast<size_t>(e)] * shape.stride() + y[static_cast<size_t>(t)]];
        }
        if (t > 0) {
          s += w[shape.transitions() + y[static_cast<size_t>(t - 1)] * shape.stride() + y[static_cast<size_t>(t)]];
        }
      }
      return s;
    };
    std::vector<int> y(static_cast<size_t>(T), 0);
    long double z = 0.0L;
    while (true) {
      z += expl(score(y));
      size_t t = 0;
      while (t < y.size() && ++y[t] == shape.labels) y[t++] = 0;
      if (t == y.size()) break;
    }
    for (int64_t t = 0; t < T; ++t) y[static_cast<size_t>(t)] = data.label[static_cast<size_t>(first + t)];
    loss += static_cast<double>(logl(z)) - score(y);
  }
  return loss;
}

TEST_P(ChainLossValuesTest, AgreesWithGoingThroughAllLabelings) {
  const ChainData data = Chains(1, 3, 25, 4, 7);
  ChainLoss loss(&data);
  for (const double scale : {0.0, 1.0, 5.0}) {
    const VectorXd w = RandomWeights(data.shape(), 2, scale);
    EXPECT_NEAR(loss.Value(w, nullptr).value(), EnumeratedLoss(data, w), 1e-11 * (1.0 + scale));
  }
}

TEST(ChainLossTest, ZeroWeightsMakeAllLabelingsEqual) {
  const ChainData data = RandomChains(1, 5, 30, 8, 9);
  ChainLoss loss(&data);
  EXPECT_NEAR(loss.Value(VectorXd::Zero(loss.dim()), nullptr).value(),
              static_cast<double>(data.tokens()) * std::log(5.0), 1e-10);
}

TEST_P(ChainLossValuesTest, SingleTokensAreMultinomialLogisticRegression) {
  const ChainData data = Chains(4, 4, 40, 1, 6);
  ChainLoss loss(&data);
  const VectorXd w = RandomWeights(data.shape(), 3, 1.0);
  double expected = 0.0;
  for (size_t t = 0; t < data.label.size(); ++t) {
    double z = 0.0, own = 0.0;
    for (int k = 0; k < 4; ++k) {
      double s = 0.0;
      for (auto e = static_cast<size_t>(data.token_start[t]); e < static_cast<size_t>(data.token_start[t + 1]); ++e) {
        s += data.Value(e) * w[data.attribute[e] * 8 + k];
      }
      z += std::exp(s);
      if (k == data.label[t]) own = s;
    }
    expected += std::log(z) - own;
  }
  EXPECT_NEAR(loss.Value(w, nullptr).value(), expected, 1e-11);
}

TEST_P(ChainLossValuesTest, GradientAndHessianAgreeWithDifferences) {
  const KernelList kernels = RunnableKernels();
  for (const int labels : {2, 8, 9, 22, 35, 107}) {
    const ChainData data = Chains(6, labels, 12, 7, 10);
    for (int set = 0; set < 2 * kernels.count; ++set) {
      ChainLoss loss(&data, 1, *kernels.kernels[set / 2]);
      const ChainProblem h(&loss, 0.7);
      const double scale = set % 2 == 0 ? 0.3 : 4.0;
      const VectorXd w = RandomWeights(data.shape(), 5, scale);
      VectorXd gradient;
      h.Value(w, &gradient).value();
      for (uint64_t direction = 0; direction < 5; ++direction) {
        const VectorXd v = RandomWeights(data.shape(), 100 + direction, 1.0).normalized();
        const double step = 1e-5;
        VectorXd plus, minus;
        const double above = h.Value(w + step * v, &plus).value();
        const double below = h.Value(w - step * v, &minus).value();
        EXPECT_NEAR(gradient.dot(v), (above - below) / (2.0 * step), 1e-6 * (1.0 + gradient.norm()));
        const VectorXd product = h.HessianVector(w, v);
        EXPECT_LT((product - (plus - minus) / (2.0 * step)).norm(), 1e-6 * (1.0 + product.norm()));
        EXPECT_GE(v.dot(product), 0.7 * (1.0 - 1e-12));  // The loss is convex.
      }
      // Padding stays out of it.
      for (int64_t row = 0; row < data.attributes + labels; ++row) {
        for (int k = labels; k < data.shape().stride(); ++k) EXPECT_EQ(gradient[row * data.shape().stride() + k], 0.0);
      }
    }
  }
}

TEST(ChainLossTest, ThreadsAndInstructionSetsAgree) {
  const ChainData data = RandomChains(8, 6, 50, 9, 20);
  const VectorXd w = RandomWeights(data.shape(), 5, 1.0);
  ChainLoss reference(&data);
  VectorXd expected;
  const double value = reference.Value(w, &expected).value();
  for (const int threads : {1, 2, 3, 60}) {
    for (int k = 0; k < RunnableKernels().count; ++k) {
      ChainLoss loss(&data, threads, *RunnableKernels().kernels[k]);
      VectorXd gradient;
      EXPECT_NEAR(loss.Value(w, &gradient).value(), value, 1e-10);
      EXPECT_LT((gradient - expected).norm(), 1e-11);
      VectorXd again;
      EXPECT_EQ(loss.Value(w, &again).value(), loss.Value(w, nullptr).value());
      EXPECT_EQ(gradient, again);
    }
  }
}

TEST(ChainLossTest, OrderOfSequencesDoesNotMatter) {
  const ChainData data = RandomChains(8, 4, 20, 9, 20);
  std::vector<int32_t> rows = testing::AllRows(20);
  base::RandomStream(1, "test.order").Shuffle(rows);
  const ChainData shuffled = Select(data, rows);
  const VectorXd w = RandomWeights(data.shape(), 5, 1.0);
  ChainLoss a(&data), b(&shuffled);
  EXPECT_NEAR(a.Value(w, nullptr).value(), b.Value(w, nullptr).value(), 1e-11);
}

TEST(ChainLossTest, LbfgsFindsAStationaryPointWhereNothingIsBetterNearby) {
  const ChainData data = RandomChains(9, 4, 30, 8, 12);
  ChainLoss loss(&data);
  const ChainProblem h(&loss, 1.0);
  const auto f = [&](const VectorXd& w, VectorXd* g) { return h.Value(w, g).value(); };
  linear::LbfgsSolver solver(1e-9);
  linear::SolveState state = solver.Start(f, VectorXd::Zero(loss.dim())).value();
  while (state == linear::SolveState::kRunning) state = solver.Step(f, {}).value();
  EXPECT_LT(solver.gradient().lpNorm<Eigen::Infinity>(), 1e-8);
  for (uint64_t k = 0; k < 10; ++k) {
    EXPECT_GT(h.Value(solver.x() + 1e-3 * RandomWeights(data.shape(), k, 1.0), nullptr).value(), solver.value());
  }
}

TEST(ChainLossTest, EvaluationCountsWhatViterbiGetsRight) {
  ChainData data = RandomChains(9, 3, 40, 4, 12);
  ChainLoss loss(&data);
  const VectorXd w = RandomWeights(data.shape(), 5, 1.0);
  const ChainLoss::Metrics m = loss.Evaluate(w).value();
  EXPECT_NEAR(m.loss_nats, loss.Value(w, nullptr).value() / static_cast<double>(data.tokens()), 1e-12);
  EXPECT_EQ(m.left_out, 0);
  // A label that the model does not know is wrong, and its sequence has no loss.
  data.unknown_names = {"new"};
  const double right = m.accuracy * static_cast<double>(data.tokens());
  const int32_t before = data.label[0];
  data.label[0] = 3;
  const ChainLoss::Metrics unknown = ChainLoss(&data).Evaluate(w).value();
  EXPECT_EQ(unknown.left_out, 1);
  const double now = unknown.accuracy * static_cast<double>(data.tokens());
  EXPECT_TRUE(std::abs(now - right) < 1e-9 || std::abs(now - right + 1.0) < 1e-9) << before;
}

}  // namespace
}  // namespace luthier::crf
