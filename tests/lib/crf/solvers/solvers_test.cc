// Every method of ChainTrainer against L-BFGS on small problems, and the properties that all share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/stop_token.h"
#include "lib/crf/solvers/batch_solvers.h"
#include "lib/crf/solvers/exponentiated_gradient.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/solvers/stochastic_gradient.h"
#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::RandomChains;
using testing::RandomWeights;

double Objective(const ChainData& data, double l2, const VectorXd& w) {
  ChainLoss loss(&data);
  return ChainProblem(&loss, l2).Value(w, nullptr).value();
}

double Optimum(const ChainData& data, double l2) {
  ChainLbfgs solver(&data, l2, 1);
  while (solver.GradientEstimate() > 1e-9 && solver.Advance(1, {}).value() == SolverState::kRunning) continue;
  return Objective(data, l2, solver.Weights());
}

// (h(w) - h*) / (h(0) - h*)
double Gap(const ChainData& data, double l2, const VectorXd& w, double optimum) {
  return (Objective(data, l2, w) - optimum) / (Objective(data, l2, VectorXd::Zero(w.size())) - optimum);
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
  stochastic::MetaDescent::Options options;
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

class EveryMethod : public ::testing::TestWithParam<ChainMethod> {
 protected:
  ChainTrainerOptions Options() const {
    ChainTrainerOptions options;
    options.method = GetParam();
    options.average.step = stochastic::StepRule::kLmax;
    options.average.seed = 7;
    options.rate = GetParam() == ChainMethod::kPegasos ? 1.0 : 0.01;
    options.max_passes = 12.0;
    options.tolerance = 0.0;
    return options;
  }
  const ChainData data_ = RandomChains(8, 4, 50, 8, 12);
};

TEST_P(EveryMethod, HasANameThatReadsBack) {
  EXPECT_EQ(ParseChainMethod(ChainMethodNames()[static_cast<size_t>(GetParam())]).value(), GetParam());
  EXPECT_EQ(ParseChainMethod("newton").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(EveryMethod, ImprovesAndEndsAtItsPasses) {
  ChainTrainer trainer = ChainTrainer::Create(&data_, 1.0, Options()).value();
  while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
  EXPECT_EQ(trainer.outcome(), ChainOutcome::kPassLimit);
  EXPECT_GE(trainer.passes(), 12.0);
  EXPECT_LT(trainer.passes(), 20.0);
  EXPECT_LT(Gap(data_, 1.0, trainer.Weights(), Optimum(data_, 1.0)), 0.9);
}

TEST_P(EveryMethod, TheRelativeGradientIsThatOfTheProblem) {
  ChainTrainer trainer = ChainTrainer::Create(&data_, 1.0, Options()).value();
  while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
  ChainLoss loss(&data_);
  Eigen::VectorXd at_zero, at_end;
  ChainProblem(&loss, 1.0).Value(Eigen::VectorXd::Zero(loss.dim()), &at_zero).value();
  ChainProblem(&loss, 1.0).Value(trainer.Weights(), &at_end).value();
  const double expected = at_end.lpNorm<Eigen::Infinity>() / at_zero.lpNorm<Eigen::Infinity>();
  const double passes = trainer.passes();
  EXPECT_NEAR(trainer.RelativeGradient({}).value(), expected, 1e-9 * expected + 1e-15);
  EXPECT_EQ(trainer.passes(), passes);
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, ::testing::ValuesIn(testing::AllMethods()), testing::NameOf);

}  // namespace
}  // namespace luthier::crf
