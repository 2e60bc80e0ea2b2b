// Penalties of nothing and of nearly everything, sequences as long as a reader lets through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/crf/inference/token_gram.h"
#include "lib/crf/solvers/lbfgs.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/column_text.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using ::testing::HasSubstr;
using testing::RandomChains;

class Extremes : public ::testing::TestWithParam<std::string> {
 protected:
  ChainTrainerOptions Options() const {
    ChainTrainerOptions options;
    options.method = GetParam();
    options.average.step = stochastic::StepRule::kLmax;
    options.rate = GetParam() == "pegasos" ? 1.0 : 0.01;
    options.max_passes = 40.0;
    return options;
  }
};

TEST_P(Extremes, NoPenaltyIsTrainedOrRefused) {
  const ChainData data = RandomChains(3, 3, 60, 6, 8);
  absl::StatusOr<ChainTrainer> trainer = ChainTrainer::Create(&data, 0.0, Options());
  if (GetParam() == "pegasos" || GetParam() == "oeg") {
    EXPECT_EQ(trainer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(trainer.status().message()), HasSubstr("needs l2 > 0"));
    return;
  }
  while (trainer->Advance({}).value() == ChainOutcome::kRunning) continue;
  EXPECT_NE(trainer->outcome(), ChainOutcome::kDiverged);
  const VectorXd w = trainer->Weights();
  ASSERT_TRUE(w.allFinite());
  ChainLoss loss(&data);
  EXPECT_LT(loss.Value(w, nullptr).value(), loss.Value(VectorXd::Zero(w.size()), nullptr).value());
}

// Its weights are -gradient / l2, about 1e-299. Methods with a step of their own say that they diverge.
TEST_P(Extremes, AnEnormousPenaltyLeavesNoWeightsOrIsReported) {
  const ChainData data = RandomChains(3, 3, 60, 6, 8);
  ChainTrainer trainer = ChainTrainer::Create(&data, 1e300, Options()).value();
  while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
  if (trainer.outcome() == ChainOutcome::kDiverged) {
    EXPECT_TRUE(GetParam() == "sg" || GetParam() == "asg" || GetParam() == "smd");
    return;
  }
  const VectorXd w = trainer.Weights();
  ASSERT_TRUE(w.allFinite());
  EXPECT_LT(w.lpNorm<Eigen::Infinity>(), 1e-290);
}

INSTANTIATE_TEST_SUITE_P(Methods, Extremes, ::testing::ValuesIn(testing::AllMethods()), testing::NameOf);

TEST(LongSequencesTest, SumsAgreeWithLogarithms) {
  constexpr int K = 3;
  const int64_t T = data::kMaxSequenceTokens;
  ChainInference chain(K, T);
  base::RandomStream random(4, "test.long");
  for (int64_t t = 0; t < T; ++t) {
    for (int k = 0; k < K; ++k) chain.scores()[t * chain.stride() + k] = 3.0 * random.Normal();
  }
  std::vector<double> w(static_cast<size_t>(K * chain.stride()), 0.0);
  for (int j = 0; j < K; ++j) {
    for (int k = 0; k < K; ++k) w[static_cast<size_t>(j * chain.stride() + k)] = random.Normal();
  }
  std::vector<long double> a(chain.scores(), chain.scores() + K);
  for (int64_t t = 1; t < T; ++t) {
    std::vector<long double> next(K);
    for (int k = 0; k < K; ++k) {
      long double sum = 0.0L;
      for (int j = 0; j < K; ++j) {
        sum += std::exp(a[static_cast<size_t>(j)] - a[0] + w[static_cast<size_t>(j * chain.stride() + k)]);
      }
      next[static_cast<size_t>(k)] = a[0] + std::log(sum) + chain.scores()[t * chain.stride() + k];
    }
    a = next;
  }
  const long double expected = a[0] + std::log(1.0L + std::exp(a[1] - a[0]) + std::exp(a[2] - a[0]));
  chain.SetTransitions(w.data());
  EXPECT_NEAR(chain.Forward(T).value() / static_cast<double>(expected), 1.0, 1e-12);
  ASSERT_TRUE(chain.Backward().ok());
  for (const int64_t t : {int64_t{0}, T / 2, T - 1}) {
    double total = 0.0;
    for (int k = 0; k < K; ++k) total += chain.marginals()[t * chain.stride() + k];
    EXPECT_NEAR(total, 1.0, 1e-9);
  }
}

TEST(LongSequencesTest, SolversAgree) {
  ChainData data = RandomChains(5, 3, 20, 8, 12);
  // One more sequence: the tokens of another problem in a row.
  const ChainData more = RandomChains(6, 3, 30, 8, 12);
  const ChainData rest = RandomChains(7, 3, 50, 8, 12);
  for (const ChainData* part : {&more, &rest}) {
    const auto entries = static_cast<int64_t>(data.attribute.size());
    data.attribute.insert(data.attribute.end(), part->attribute.begin(), part->attribute.end());
    data.label.insert(data.label.end(), part->label.begin(), part->label.end());
    for (size_t t = 1; t < part->token_start.size(); ++t) data.token_start.push_back(entries + part->token_start[t]);
  }
  data.sequence_start.push_back(data.tokens());
  ASSERT_TRUE(CheckChainData(data).ok());
  ASSERT_GT(data.longest(), 3 * TokenGram::kMaxCounted);
  ChainLbfgs reference(&data, 2.0, 1);
  while (reference.GradientEstimate() > 1e-8 && reference.Advance(1, {}).value() == SolverState::kRunning) continue;
  ChainLoss loss(&data);
  const ChainProblem h(&loss, 2.0);
  const double optimum = h.Value(reference.Weights(), nullptr).value();
  for (const int threads : {1, 2}) {
    ChainTrainerOptions options;
    options.threads = threads;
    options.tolerance = 1e-6;
    options.max_passes = 2000.0;
    ChainTrainer trainer = ChainTrainer::Create(&data, 2.0, options).value();
    while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
    EXPECT_EQ(trainer.outcome(), ChainOutcome::kConverged);
    EXPECT_NEAR(h.Value(trainer.Weights(), nullptr).value(), optimum, 1e-8 * optimum);
  }
}

TEST(ChainDataTest, DataWithOneLabelAreRefused) {
  ChainData data = RandomChains(1, 2, 5, 4, 3);
  data.label_names.pop_back();
  std::fill(data.label.begin(), data.label.end(), 0);
  const absl::Status status = CheckChainData(data);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("random: "));
}

}  // namespace
}  // namespace luthier::crf
