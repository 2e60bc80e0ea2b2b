#include "lib/crf/solvers/average_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::AverageForm;
using testing::RandomChains;

AverageGradient Make(const ChainData& data, double l2, const AverageGradientOptions& options) {
  return AverageGradient::Create(&data, l2, options).value();
}

double Suboptimality(const ChainData& data, double l2, const VectorXd& w, double optimum) {
  ChainLoss loss(&data);
  return (ChainProblem(&loss, l2).Value(w, nullptr).value() - optimum) / (1.0 + std::abs(optimum));
}

AverageGradientOptions Options(AverageMethod method, Sampling sampling, StepRule step) {
  return AverageForm{method, sampling, step}.Options(11);
}

TEST(AverageGradientTest, TheSafeCombinationsFindTheOptimum) {
  const ChainData data = RandomChains(1, 4, 60, 8, 15);
  const testing::Minimum truth = testing::MinimumOf(data, 3.0);
  for (const AverageForm& c : {AverageForm{AverageMethod::kSag, Sampling::kMixed, StepRule::kHedge},
                               AverageForm{AverageMethod::kSag, Sampling::kLipschitz, StepRule::kHedge},
                               AverageForm{AverageMethod::kSag, Sampling::kUniform, StepRule::kLmax},
                               AverageForm{AverageMethod::kSag, Sampling::kMixed, StepRule::kAverageOptimum1},
                               AverageForm{AverageMethod::kSaga, Sampling::kMixed, StepRule::kLmax},
                               AverageForm{AverageMethod::kSaga, Sampling::kLipschitz, StepRule::kHedge},
                               AverageForm{AverageMethod::kSaga, Sampling::kPermutation, StepRule::kLmax},
                               AverageForm{AverageMethod::kSagaLiteral, Sampling::kUniform, StepRule::kLmax},
                               AverageForm{AverageMethod::kSaga2, Sampling::kLipschitz, StepRule::kLmax}}) {
    const bool literal_uniform = c.method == AverageMethod::kSagaLiteral;
    AverageGradient solver = Make(data, 3.0, c.Options(11));
    ASSERT_EQ(solver.Advance(500 * data.sequences(), {}).value(), SolverState::kRunning);
    const double gap = Suboptimality(data, 3.0, solver.Weights(), truth.value);
    // The literal form weighs d by the constants although draws are uniform: it gets near and no nearer.
    EXPECT_LT(gap, literal_uniform ? 1e-1 : 1e-9) << testing::Describe(c);
    EXPECT_TRUE(literal_uniform || solver.GradientEstimate() < 1e-2);
  }
}

// Rows of one and of several chunks of registers, on every instruction set.
TEST(AverageGradientTest, TheOptimumIsFoundForAnyNumberOfLabels) {
  for (const int labels : {18, 50}) {
    const ChainData data = RandomChains(9, labels, 30, 5, 12);
    const testing::Minimum truth = testing::MinimumOf(data, 4.0);
    const KernelList kernels = RunnableKernels();
    for (int set = 0; set < kernels.count; ++set) {
      for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga}) {
        AverageGradient solver = AverageGradient::Create(&data, 4.0, Options(method, Sampling::kMixed, StepRule::kLmax),
                                                         *kernels.kernels[set])
                                     .value();
        ASSERT_EQ(solver.Advance(100 * data.sequences(), {}).value(), SolverState::kRunning);
        EXPECT_LT(Suboptimality(data, 4.0, solver.Weights(), truth.value), 1e-6)
            << labels << " labels, " << kernels.kernels[set]->name;
      }
    }
  }
}

TEST(AverageGradientTest, OneConstantForAllWorksFromAnyStart) {
  const ChainData data = RandomChains(2, 3, 40, 6, 12);
  const testing::Minimum truth = testing::MinimumOf(data, 2.0);
  for (const double first : {1e-3, 1.0, 1e3}) {
    AverageGradientOptions options = Options(AverageMethod::kSag, Sampling::kUniform, StepRule::kLmax);
    options.shared_constant = true;
    options.first_constant = first;
    AverageGradient solver = Make(data, 2.0, options);
    solver.Advance(400 * data.sequences(), {}).value();
    EXPECT_LT(Suboptimality(data, 2.0, solver.Weights(), truth.value), 1e-9) << first;
  }
}

TEST(AverageGradientTest, MemoryModesGiveTheSameIterates) {
  const ChainData data = RandomChains(3, 5, 30, 7, 10);
  std::vector<VectorXd> w;
  for (const MemoryMode mode :
       {MemoryMode::kMixed, MemoryMode::kMarginals, MemoryMode::kSparse, MemoryMode::kAbsolute}) {
    for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga, AverageMethod::kSaga2}) {
      AverageGradientOptions options = Options(method, Sampling::kMixed, StepRule::kLmax);
      options.memory = mode;
      options.skip_checks = false;
      AverageGradient solver = Make(data, 1.0, options);
      solver.Advance(10 * data.sequences(), {}).value();
      EXPECT_EQ(solver.memory_bytes(), (PlanMemory(mode, data) + 8) * 4);
      w.push_back(solver.Weights());
      if (mode != MemoryMode::kMixed) {
        // Rounding to float differs between the modes.
        EXPECT_LT((w.back() - w[w.size() % 3 == 0 ? 2 : w.size() % 3 - 1]).lpNorm<Eigen::Infinity>(), 1e-4);
      }
    }
  }
}

TEST(AverageGradientTest, ResumingGivesTheSameBits) {
  const ChainData data = RandomChains(4, 4, 50, 8, 12);
  for (size_t m = 0; m < AverageMethodNames().size(); ++m) {
    for (size_t s = 0; s < stochastic::SamplingNames().size(); ++s) {
      const auto sampling = static_cast<Sampling>(s);
      const bool port = sampling == Sampling::kLipschitzPort;
      AverageGradientOptions options =
          Options(static_cast<AverageMethod>(m), sampling, port ? StepRule::kPort : StepRule::kLmax);
      options.shared_constant = sampling == Sampling::kUniform;
      options.search_remembered = sampling == Sampling::kCyclic;
      AverageGradient whole = Make(data, 1.0, options);
      whole.Advance(346, {}).value();
      AverageGradient first = Make(data, 1.0, options);
      first.Advance(173, {}).value();
      base::CheckpointWriter writer("test/1");
      first.Save(&writer);
      const std::string bytes = std::move(writer).Finish();
      base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
      AverageGradient second = Make(data, 1.0, options);
      ASSERT_TRUE(second.Load(&reader));
      EXPECT_TRUE(reader.Done());
      second.Advance(173, {}).value();
      EXPECT_EQ(second.Weights(), whole.Weights());
      EXPECT_EQ(second.passes(), whole.passes());
      EXPECT_EQ(second.GradientEstimate(), whole.GradientEstimate());
    }
  }
}

TEST(AverageGradientTest, AtTheOptimumTheSumOfGradientsBalancesThePenalty) {
  const ChainData data = RandomChains(6, 3, 40, 6, 10);
  AverageGradient solver = Make(data, 1.0, {});
  solver.Advance(1000 * data.sequences(), {}).value();
  // w = -d at l2 = 1, lambda = 1/n.
  EXPECT_LT(solver.GradientEstimate(), 1e-6);
  ChainLoss loss(&data);
  VectorXd gradient;
  ChainProblem(&loss, 1.0).Value(solver.Weights(), &gradient).value();
  EXPECT_LT(gradient.lpNorm<Eigen::Infinity>(), 1e-5);
}

TEST(AverageGradientTest, LeavingOutSearchesSavesPasses) {
  const ChainData data = RandomChains(7, 4, 100, 8, 15);
  AverageGradientOptions options;
  AverageGradient skipping = Make(data, 1.0, options);
  options.skip_checks = false;
  AverageGradient checking = Make(data, 1.0, options);
  skipping.Advance(50 * data.sequences(), {}).value();
  checking.Advance(50 * data.sequences(), {}).value();
  EXPECT_EQ(skipping.evaluations(), checking.evaluations());
  EXPECT_LT(skipping.forwards(), checking.forwards() / 2);
}

TEST(AverageGradientTest, TheBoundIsThatOfTheEstimate) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradient solver = Make(data, 1.0, AverageGradientOptions());
  EXPECT_FALSE(solver.GradientWithin(1e300));  // Not before all were seen.
  solver.Advance(40 * data.sequences(), {}).value();
  const double estimate = solver.GradientEstimate();
  EXPECT_TRUE(solver.GradientWithin(estimate));
  EXPECT_FALSE(solver.GradientWithin(std::nextafter(estimate, 0.0)));
}

TEST(AverageGradientTest, SearchesOfGradientsByAttributeAreRefused) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradientOptions options;
  options.search_remembered = true;
  options.memory = MemoryMode::kSparse;
  const absl::Status status = AverageGradient::Create(&data, 1.0, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("needs memory mixed or marginals; this is sparse"));
}

// As printed, algorithm 1 replaces g_i before it searches.
TEST(AverageGradientTest, TheRememberedGradientOfSagIsTheFreshOne) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradientOptions options = Options(AverageMethod::kSag, Sampling::kMixed, StepRule::kHedge);
  options.skip_checks = false;
  AverageGradient fresh = Make(data, 1.0, options);
  options.search_remembered = true;
  AverageGradient remembered = Make(data, 1.0, options);
  for (AverageGradient* solver : {&fresh, &remembered}) solver->Advance(300, {}).value();
  EXPECT_EQ(fresh.Weights(), remembered.Weights());
}

// A search reads what is remembered as the chain's own residuals and edges are.
TEST(AverageGradientTest, SearchesOfBothMemoryModesAgree) {
  const ChainData data = RandomChains(8, 5, 20, 7, 10);
  std::vector<VectorXd> w;
  std::vector<int64_t> iterations;
  for (const MemoryMode mode : {MemoryMode::kMixed, MemoryMode::kMarginals}) {
    AverageGradientOptions options = Options(AverageMethod::kSaga, Sampling::kCyclic, StepRule::kLmax);
    options.search_remembered = true;
    options.memory = mode;
    AverageGradient solver = Make(data, 1.0, options);
    // Up to the first that finds no end: its step is nothing.
    do solver.Advance(1, {}).value();
    while (solver.max_constant() < 1e6 && solver.iterations() < 200);
    w.push_back(solver.Weights());
    iterations.push_back(solver.iterations());
  }
  EXPECT_EQ(iterations[0], iterations[1]);
  EXPECT_GT(iterations[0], data.sequences());
  EXPECT_LT((w[0] - w[1]).lpNorm<Eigen::Infinity>(), 1e-4);
  EXPECT_GT(w[0].lpNorm<Eigen::Infinity>(), 1e-2);
}

TEST(AverageGradientTest, DivergenceIsReported) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradientOptions options = Options(AverageMethod::kSag, Sampling::kCyclic, StepRule::kConstant);
  options.constant_step = 1e308;
  AverageGradient solver = Make(data, 0.0, options);
  EXPECT_EQ(solver.Advance(10 * data.sequences(), {}).value(), SolverState::kDiverged);
}

TEST(GradientMemoryTest, ATableThatDoesNotFitIsRefused) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradientOptions options;
  options.memory = MemoryMode::kAbsolute;
  options.max_memory_bytes = 100;
  const absl::Status status = AverageGradient::Create(&data, 1.0, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("take solver lbfgs, which keeps none"));
}

// Table of section 2.7.1 of the source: shares of what n p numbers would need, from labels and lengths alone.
// Rows of weights as hash_bits 28 has them: refused before one of them is made.
TEST(ChainTrainerTest, VectorsOfWeightsArePlannedBeforeTheyAreTaken) {
  ChainData data = RandomChains(1, 9, 5, 4, 3);
  data.attributes = 1 << 28;
  ChainTrainerOptions options;
  for (const auto& [method, mebibytes] : {std::pair("sag", "196609"), {"lbfgs", "1048577"}}) {
    options.method = method;
    const absl::Status status = ChainTrainer::Create(&data, 1.0, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::AllOf(::testing::HasSubstr(absl::StrCat("would need ", mebibytes, " MiB")),
                         ::testing::HasSubstr("268435456 attributes"), ::testing::HasSubstr("the limit is 4096 MiB")));
  }
}

TEST(GradientMemoryTest, SharesOfTheThesis) {
  struct Row {
    int labels;
    double tokens, sequences, parameters, marginals, mixed, absolute_gib;
  };
  for (const Row& row :
       {Row{26, 47535, 6251, 4082, 1.1, 2.1e-1, 0.2}, Row{22, 211727, 8936, 1643026, 7.0e-3, 6.1e-4, 110},
        Row{9, 202931, 15806, 2798955, 3.8e-4, 7.0e-5, 330}}) {
    // Sequences of two lengths that make up the tokens.
    ChainData data;
    for (int k = 0; k < row.labels; ++k) data.label_names.push_back(std::to_string(k));
    const double K = row.labels;
    data.attributes = static_cast<int32_t>((row.parameters - K * K) / K);
    int64_t tokens = 0;
    for (int64_t i = 1; i <= static_cast<int64_t>(row.sequences); ++i) {
      tokens = static_cast<int64_t>(row.tokens * static_cast<double>(i) / row.sequences);
      data.sequence_start.push_back(tokens);
    }
    data.label.assign(static_cast<size_t>(tokens), 0);
    data.token_start.assign(static_cast<size_t>(tokens) + 1, 0);
    const double whole = static_cast<double>(PlanMemory(MemoryMode::kAbsolute, data));
    const auto two_digits = [](double x) {
      const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1.0);
      return std::round(x / unit) * unit;
    };
    EXPECT_NEAR(two_digits(static_cast<double>(PlanMemory(MemoryMode::kMarginals, data)) / whole) / row.marginals, 1.0,
                1e-9 + (row.labels == 9 ? 0.03 : 0.0));
    EXPECT_NEAR(two_digits(static_cast<double>(PlanMemory(MemoryMode::kMixed, data)) / whole) / row.mixed, 1.0, 1e-9);
    EXPECT_NEAR(whole * 8.0 / std::pow(2.0, 30.0) / row.absolute_gib, 1.0, 0.06);
  }
}

}  // namespace
}  // namespace luthier::crf
