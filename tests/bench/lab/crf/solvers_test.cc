// The solvers that are there to compare with, against L-BFGS on small problems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/lab/crf/batch_solvers.h"
#include "bench/lab/crf/exponentiated_gradient.h"
#include "bench/lab/crf/stochastic_gradient.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf::lab {
namespace {

using Eigen::VectorXd;
using testing::Gap;
using testing::Objective;
using testing::RandomChains;
using testing::RandomWeights;
using testing::WithValues;

double Optimum(const ChainData& data, double l2) {
  return testing::MinimumOf(data, l2).value;
}

StochasticGradientOptions Rule(GradientRule rule, double rate) {
  StochasticGradientOptions options;
  options.rule = rule;
  options.rate = rate;
  options.seed = 5;
  return options;
}

// Updates as printed, on dense vectors and without any laziness.
VectorXd Plain(const ChainData& data, double l2, const StochasticGradientOptions& options, int64_t iterations) {
  ChainLoss loss(&data);
  stochastic::Sampler sampler(stochastic::WithoutConstants(options.sampling), data.sequences(), options.seed);
  const double lambda = l2 / static_cast<double>(data.sequences());
  VectorXd w = VectorXd::Zero(loss.dim()), sum = w, squares = w;
  for (int64_t t = 1; t <= iterations; ++t) {
    const auto row = static_cast<int32_t>(sampler.Next().index);
    VectorXd g = VectorXd::Zero(w.size());
    loss.AddSubset(&row, 1, w, &g).value();
    if (options.rule == GradientRule::kAdaGrad) {
      squares.array() += g.array().square();
      const VectorXd rate = options.rate / (1.0 + squares.array().sqrt());
      w = (w - rate.cwiseProduct(g)).array() / (1.0 + lambda * rate.array());
    } else {
      const double pegasos = options.rate / (lambda * static_cast<double>(t));
      const double alpha = options.rule == GradientRule::kPegasos ? pegasos : options.rate;
      w = (1.0 - alpha * lambda) * w - alpha * g;
    }
    sum += w;
  }
  return options.rule == GradientRule::kAveraged ? VectorXd(sum / static_cast<double>(iterations)) : w;
}

TEST(StochasticGradientTest, LazyUpdatesAreTheUpdatesAsPrinted) {
  const ChainData data = RandomChains(1, 5, 40, 7, 20, 0.1);
  for (const GradientRule rule :
       {GradientRule::kConstant, GradientRule::kPegasos, GradientRule::kAveraged, GradientRule::kAdaGrad}) {
    for (const double rate : {0.03, 1.0}) {
      // Penalties from weak to so strong that s has to be brought back to 1 often.
      for (const double l2 : {0.1, 8.0}) {
        for (const stochastic::Sampling sampling :
             {stochastic::Sampling::kUniform, stochastic::Sampling::kPermutation}) {
          StochasticGradientOptions options = Rule(rule, rate);
          options.sampling = sampling;
          StochasticGradient solver(&data, l2, options);
          ASSERT_EQ(solver.Advance(300, {}).value(), SolverState::kRunning);
          const VectorXd plain = Plain(data, l2, options, 300);
          // Pegasos begins with steps of 1 / lambda, which magnify rounding.
          EXPECT_LT((solver.Weights() - plain).norm(), 1e-6 * (1.0 + plain.norm()))
              << static_cast<int>(rule) << " " << rate << " " << l2;
        }
      }
    }
  }
}

TEST(StochasticGradientTest, RulesApproachTheOptimum) {
  const ChainData data = RandomChains(2, 4, 60, 8, 15);
  const double l2 = 3.0, optimum = Optimum(data, l2);
  struct Case {
    GradientRule rule;
    double rate, gap;
  };
  for (const Case& c : {Case{GradientRule::kConstant, 1e-3, 1e-2}, Case{GradientRule::kAveraged, 1e-2, 1e-2},
                        Case{GradientRule::kPegasos, 1.0, 1e-2}, Case{GradientRule::kAdaGrad, 0.1, 1e-2}}) {
    StochasticGradient solver(&data, l2, Rule(c.rule, c.rate));
    ASSERT_EQ(solver.Advance(300 * data.sequences(), {}).value(), SolverState::kRunning);
    EXPECT_LT(Gap(data, l2, solver.Weights(), optimum), c.gap) << static_cast<int>(c.rule);
  }
}

TEST(StochasticGradientTest, DivergenceIsReported) {
  const ChainData data = RandomChains(2, 4, 60, 8, 15);
  StochasticGradient solver(&data, 0.0, Rule(GradientRule::kConstant, 1e308));
  EXPECT_EQ(solver.Advance(1000, {}).value(), SolverState::kDiverged);
}

TEST(ExponentiatedGradientTest, TheDualityGapCloses) {
  const ChainData data = RandomChains(3, 4, 40, 8, 12);
  for (const double first_potential : {0.0, 6.0, 20.0}) {
    for (const double l2 : {0.5, 10.0}) {
      const double optimum = Optimum(data, l2);
      ExponentiatedGradientOptions options;
      options.first_potential = first_potential;
      ExponentiatedGradient solver = ExponentiatedGradient::Create(&data, l2, options).value();
      solver.Advance(0, {}).value();
      double before = solver.DualValue();
      EXPECT_LE(before, optimum);
      for (int pass = 0; pass < 400; ++pass) {
        ASSERT_EQ(solver.Advance(data.sequences(), {}).value(), SolverState::kRunning);
        const double dual = solver.DualValue();
        EXPECT_GE(dual, before - 1e-9 * (1.0 + std::abs(before)));
        EXPECT_LE(dual, optimum + 1e-9 * (1.0 + std::abs(optimum)));
        before = dual;
      }
      EXPECT_LT(Objective(data, l2, solver.Weights()) - before, 1e-6 * optimum) << first_potential << " " << l2;
    }
  }
}

// w(alpha) and D(alpha) from the potentials of one sequence by enumeration of all labelings.
TEST(ExponentiatedGradientTest, TheDualValueIsThatOfTheFormula) {
  const ChainData data = RandomChains(4, 3, 3, 3, 6);
  ExponentiatedGradient solver = ExponentiatedGradient::Create(&data, 2.0, {}).value();
  solver.Advance(7, {}).value();
  // At any w the primal is above; at w(alpha) of a converged alpha both meet. In between: D <= h(w) for random w.
  const double dual = solver.DualValue();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_LE(dual, Objective(data, 2.0, RandomWeights(data.shape(), seed, 0.5)));
  }
  // Uniform distributions: entropy T log K each, w the sum of F(y) - E F.
  ExponentiatedGradientOptions uniform;
  uniform.first_potential = 0.0;
  ExponentiatedGradient start = ExponentiatedGradient::Create(&data, 2.0, uniform).value();
  start.Advance(0, {}).value();
  VectorXd gradient;
  ChainLoss loss(&data);
  loss.Value(VectorXd::Zero(loss.dim()), &gradient).value();
  EXPECT_LT((start.Weights() + gradient / 2.0).lpNorm<Eigen::Infinity>(), 1e-12);
  EXPECT_NEAR(start.DualValue(), static_cast<double>(data.tokens()) * std::log(3.0) - gradient.squaredNorm() / 4.0,
              1e-9);
}

TEST(ExponentiatedGradientTest, RefusesWhatItCannotDo) {
  const ChainData data = RandomChains(4, 3, 3, 3, 6);
  EXPECT_EQ(ExponentiatedGradient::Create(&data, 0.0, {}).status().code(), absl::StatusCode::kInvalidArgument);
  ExponentiatedGradientOptions options;
  options.max_memory_bytes = 100;
  EXPECT_EQ(ExponentiatedGradient::Create(&data, 1.0, options).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ChainHybridTest, GoesFromOneSequenceToAllAndToTheOptimum) {
  const ChainData data = RandomChains(5, 4, 80, 8, 15);
  ChainHybrid solver(&data, 2.0, 3);
  solver.Advance(1, {}).value();
  EXPECT_EQ(solver.batch(), 3);
  EXPECT_EQ(solver.GradientEstimate(), INFINITY);
  int64_t before = 3;
  while (solver.batch() < data.sequences()) {
    ASSERT_EQ(solver.Advance(1, {}).value(), SolverState::kRunning);
    EXPECT_EQ(solver.batch(),
              std::min<int64_t>(80, static_cast<int64_t>(std::ceil(1.1 * static_cast<double>(before) + 1.0))));
    before = solver.batch();
  }
  while (solver.Advance(1, {}).value() == SolverState::kRunning && solver.iterations() < 2000) continue;
  ChainLoss loss(&data);
  VectorXd gradient;
  ChainProblem(&loss, 2.0).Value(solver.Weights(), &gradient).value();
  EXPECT_NEAR(solver.GradientEstimate(), gradient.lpNorm<Eigen::Infinity>(), 1e-9);
  EXPECT_LT(Gap(data, 2.0, solver.Weights(), Optimum(data, 2.0)), 1e-11);
}

TEST(ChainMetaDescentTest, IsFasterThanTheSameStepsHeldConstant) {
  const ChainData data = RandomChains(6, 4, 80, 8, 15);
  const double optimum = Optimum(data, 4.0);
  MetaDescent::Options options;
  options.rate = 0.01;
  std::vector<double> gaps;
  for (const double meta_rate : {0.0, 0.1}) {
    options.meta_rate = meta_rate;
    ChainMetaDescent solver(&data, 4.0, options, 1);
    ASSERT_EQ(solver.Advance(200, {}).value(), SolverState::kRunning);
    gaps.push_back(Gap(data, 4.0, solver.Weights(), optimum));
  }
  EXPECT_LT(gaps[1], 0.9 * gaps[0]);
  ChainMetaDescent longer(&data, 4.0, options, 1);
  ASSERT_EQ(longer.Advance(4000, {}).value(), SolverState::kRunning);
  EXPECT_LT(Gap(data, 4.0, longer.Weights(), optimum), 0.02);
}

// The distributions are feasible under any penalty, so the dual value stays below the optimum from the start, and is
// that of w(alpha) = (1/l2) sum [F(x, y) - E F] on the new values.
ChainData ScaledChains(const std::vector<double>& scale) {
  ChainData data = RandomChains(8, 4, 50, 8, 12);
  for (const int32_t a : data.attribute) data.value.push_back(scale[static_cast<size_t>(a) % scale.size()]);
  return data;
}

TEST(ExponentiatedWarmStartTest, TheDualValueIsABoundFromTheStart) {
  const std::vector<double> some = {0.5, 2.0, 1.0, 3.0}, others = {1.5, 0.7, 1.2};
  VectorXd ratio(12);
  for (size_t a = 0; a < 12; ++a)
    ratio[static_cast<Eigen::Index>(a)] = others[a % others.size()] / some[a % some.size()];
  const ChainData from = ScaledChains(some), to = ScaledChains(others);
  ExponentiatedGradientOptions options;
  ExponentiatedGradient source = ExponentiatedGradient::Create(&from, 1.0, options).value();
  source.Advance(200 * from.sequences(), {}).value();
  base::CheckpointWriter writer("test/1");
  source.SaveModel(&writer);
  const std::string bytes = std::move(writer).Finish();
  for (const double l2 : {0.3, 1.0, 4.0}) {
    base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
    ExponentiatedGradient warm = ExponentiatedGradient::Create(&to, l2, options).value();
    ASSERT_TRUE(warm.WarmStart(&reader, Rescaling(ratio)));
    const double optimum = Optimum(to, l2);
    double dual = warm.DualValue();
    EXPECT_LT(dual, optimum);
    for (int k = 0; k < 4; ++k) {
      warm.Advance(50 * to.sequences(), {}).value();
      EXPECT_GE(warm.DualValue(), dual - 1e-9 * std::abs(dual));
      dual = warm.DualValue();
    }
    EXPECT_NEAR(dual, optimum, 1e-4 * optimum);
    EXPECT_NEAR(Objective(to, l2, warm.Weights()), optimum, 1e-4 * optimum);
  }
}

TEST(ExponentiatedGradientTest, ValuesOfAttributesAndSequencesOfAHundredTokensAreNoExceptions) {
  ChainData data = WithValues(RandomChains(9, 4, 50, 8, 15), 4);
  for (const bool chained : {false, true}) {
    // All tokens in a row: one sequence longer than those whose tokens are counted.
    if (chained) data.sequence_start = {0, data.tokens()};
    ASSERT_TRUE(CheckChainData(data).ok());
    const double optimum = Optimum(data, 2.0);
    ExponentiatedGradient dual = ExponentiatedGradient::Create(&data, 2.0, {}).value();
    dual.Advance(0, {}).value();
    const double before = dual.DualValue();
    dual.Advance(500 * data.sequences(), {}).value();
    EXPECT_GT(dual.DualValue(), before);
    EXPECT_LE(dual.DualValue(), optimum * (1.0 + 1e-8));
    if (!chained) {
      EXPECT_NEAR(dual.DualValue(), optimum, 1e-6 * optimum);
    }
  }
}

TEST(PegasosTest, NoStartIsTakenForItsFirstStepForgetsAllWeights) {
  const ChainData data = RandomChains(8, 4, 50, 8, 12);
  ChainTrainerOptions options;
  options.method = "pegasos";
  options.max_passes = 4.0;
  ChainTrainer source = ChainTrainer::Create(&data, 2.0, options).value();
  while (source.Advance({}).value() == ChainOutcome::kRunning) continue;
  base::CheckpointWriter writer("test/1");
  source.SaveModel(&writer, "id");
  const std::string bytes = std::move(writer).Finish();
  base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
  ChainTrainer warm = ChainTrainer::Create(&data, 2.0, options).value();
  const absl::Status refused = warm.WarmStart(&reader, "id");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("forgets where it started"));
}

}  // namespace
}  // namespace luthier::crf::lab
