// The properties that all methods of ChainTrainer share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using testing::Gap;
using testing::RandomChains;

class EveryMethod : public ::testing::TestWithParam<std::string> {
 protected:
  ChainTrainerOptions Options() const {
    ChainTrainerOptions options;
    options.method = GetParam();
    options.average.step = stochastic::StepRule::kLmax;
    options.average.seed = 7;
    options.rate = GetParam() == "pegasos" ? 1.0 : 0.01;
    options.max_passes = 12.0;
    options.tolerance = 0.0;
    return options;
  }
  const ChainData data_ = RandomChains(8, 4, 50, 8, 12);
};

TEST_P(EveryMethod, IsFoundByItsNameAlone) {
  EXPECT_TRUE(FindChainMethod(GetParam()).ok());
  EXPECT_EQ(FindChainMethod("newton").status().code(), absl::StatusCode::kInvalidArgument);
  ChainTrainerOptions options = Options();
  options.method = "newton";
  EXPECT_THAT(std::string(ChainTrainer::Create(&data_, 1.0, options).status().message()),
              ::testing::HasSubstr("there are sag, saga, lbfgs"));
}

TEST_P(EveryMethod, ImprovesAndEndsAtItsPasses) {
  ChainTrainer trainer = ChainTrainer::Create(&data_, 1.0, Options()).value();
  while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
  EXPECT_EQ(trainer.outcome(), ChainOutcome::kPassLimit);
  EXPECT_GE(trainer.passes(), 12.0);
  EXPECT_LT(trainer.passes(), 20.0);
  EXPECT_LT(Gap(data_, 1.0, trainer.Weights(), testing::MinimumOf(data_, 1.0).value), 0.9);
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
