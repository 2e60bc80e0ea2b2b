// Training that starts from what was trained under other penalties, of one penalty or of groups of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/status/status.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/average_gradient.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/solvers/proximal_average.h"
#include "lib/crf/solvers/rescaling.h"
#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::MethodCase;
using testing::RandomChains;

// A penalty, and the values that the attributes have under it.
struct Penalties {
  double l2, l1;
  ChainData data;
};

Penalties Plain(double l2, double l1) {
  return {l2, l1, RandomChains(8, 4, 50, 8, 12)};
}

// Rows of different penalties: their values are those of Plain times `scale`, of one attribute after the other.
Penalties Scaled(double l2, double l1, const std::vector<double>& scale) {
  Penalties penalties = Plain(l2, l1);
  for (const int32_t a : penalties.data.attribute) {
    penalties.data.value.push_back(scale[static_cast<size_t>(a) % scale.size()]);
  }
  return penalties;
}

Rescaling Between(const std::vector<double>& from, const std::vector<double>& to) {
  VectorXd ratio(12);
  for (Eigen::Index a = 0; a < ratio.size(); ++a) {
    const auto k = static_cast<size_t>(a);
    ratio[a] = to[k % to.size()] / from[k % from.size()];
  }
  return Rescaling(ratio);
}

ChainTrainerOptions Options(const MethodCase& one, const Penalties& penalties) {
  ChainTrainerOptions options;
  options.method = one.method;
  options.threads = one.threads;
  options.l1 = penalties.l1;
  options.average.step = stochastic::StepRule::kLmax;
  options.average.seed = 7;
  options.rate = one.method == "adagrad" ? 0.1 : one.method == "smd" ? 0.05 : 0.01;
  options.tolerance = 1e-6;
  options.max_passes = testing::IsBlind(one.method) ? 4.0 : 2000.0;
  return options;
}

ChainTrainer Make(const MethodCase& one, const Penalties& penalties) {
  return ChainTrainer::Create(&penalties.data, penalties.l2, Options(one, penalties)).value();
}

void TrainToEnd(ChainTrainer* trainer) {
  while (trainer->Advance({}).value() == ChainOutcome::kRunning) continue;
}

std::string ModelOf(const ChainTrainer& trainer) {
  base::CheckpointWriter writer("test/1");
  trainer.SaveModel(&writer, "id");
  return std::move(writer).Finish();
}

absl::Status Start(ChainTrainer* trainer, const std::string& model, const Rescaling& rescaling,
                   const std::string& identity = "id") {
  base::CheckpointReader reader = base::CheckpointReader::Open(model, "test/1").value();
  const absl::Status status = trainer->WarmStart(&reader, identity, rescaling);
  EXPECT_TRUE(!status.ok() || reader.Done());
  return status;
}

double Objective(const Penalties& penalties, const VectorXd& w) {
  ChainLoss loss(&penalties.data);
  return ChainProblem(&loss, penalties.l2).Value(w, nullptr).value() + penalties.l1 * w.lpNorm<1>();
}

// By a method that is not the one that is tested, from zero.
double Optimum(const MethodCase& one, const Penalties& penalties) {
  if (one.l1 == 0.0 && one.method != "lbfgs") {
    return testing::MinimumOf(penalties.data, penalties.l2).value;
  }
  MethodCase other;
  other.method = "sag";
  ChainTrainerOptions options = Options(other, penalties);
  options.tolerance = 1e-8;
  options.average.seed = 99;
  ChainTrainer trainer = ChainTrainer::Create(&penalties.data, penalties.l2, options).value();
  TrainToEnd(&trainer);
  EXPECT_EQ(trainer.outcome(), ChainOutcome::kConverged);
  return Objective(penalties, trainer.Weights());
}

class WarmStartOf : public ::testing::TestWithParam<MethodCase> {
 protected:
  struct Change {
    Penalties from, to;
    Rescaling rescaling;
  };
  // A near penalty; equal penalties to groups and back; groups to groups.
  static std::vector<Change> Changes() {
    const double l1 = GetParam().l1;
    const std::vector<double> one = {1.0}, some = {0.8, 1.3, 1.1}, others = {1.0, 1.2, 0.9};
    std::vector<Change> changes;
    changes.push_back({Plain(2.0, l1), Plain(2.6, 1.3 * l1), Rescaling()});
    changes.push_back({Plain(2.0, l1), Scaled(2.4, l1, some), Between(one, some)});
    changes.push_back({Scaled(2.0, l1, some), Plain(1.7, 0.8 * l1), Between(some, one)});
    changes.push_back({Scaled(2.0, l1, some), Scaled(2.4, 1.2 * l1, others), Between(some, others)});
    return changes;
  }
};

TEST_P(WarmStartOf, ReachesTheOptimumInFewerPasses) {
  double cold_passes = 0.0, warm_passes = 0.0, cold_gap = 0.0, warm_gap = 0.0;
  for (const Change& change : Changes()) {
    ChainTrainer source = Make(GetParam(), change.from), cold = Make(GetParam(), change.to),
                 warm = Make(GetParam(), change.to);
    TrainToEnd(&source);
    TrainToEnd(&cold);
    ASSERT_TRUE(Start(&warm, ModelOf(source), change.rescaling).ok());
    EXPECT_EQ(warm.passes(), 0.0);
    const double optimum = Optimum(GetParam(), change.to);
    const VectorXd zero = VectorXd::Zero(warm.Weights().size());
    const auto gap = [&](const ChainTrainer& trainer) {
      return (Objective(change.to, trainer.Weights()) - optimum) / (Objective(change.to, zero) - optimum);
    };
    TrainToEnd(&warm);
    cold_passes += cold.passes();
    warm_passes += warm.passes();
    cold_gap += gap(cold);
    warm_gap += gap(warm);
    if (testing::IsBlind(GetParam().method)) continue;
    EXPECT_EQ(warm.outcome(), ChainOutcome::kConverged);
    EXPECT_NEAR(gap(warm), 0.0, 1e-9);
  }
  if (testing::IsBlind(GetParam().method)) {
    EXPECT_LT(warm_gap, 0.8 * cold_gap);
  } else {
    EXPECT_LT(warm_passes, 0.9 * cold_passes);
  }
}

TEST_P(WarmStartOf, ResumesBitForBitAndStopsWithoutATrace) {
  const Change change = Changes().back();
  ChainTrainer source = Make(GetParam(), change.from);
  TrainToEnd(&source);
  const std::string model = ModelOf(source);
  ChainTrainer whole = Make(GetParam(), change.to);
  ASSERT_TRUE(Start(&whole, model, change.rescaling).ok());
  const VectorXd first = whole.Weights();
  TrainToEnd(&whole);
  for (const int rounds : {0, 1, 3}) {
    ChainTrainer begun = Make(GetParam(), change.to), resumed = Make(GetParam(), change.to);
    ASSERT_TRUE(Start(&begun, model, change.rescaling).ok());
    const base::StopSource source_of_stop;
    source_of_stop.RequestStop();
    EXPECT_EQ(begun.Advance(source_of_stop.token()).status(), base::StoppedError());
    EXPECT_EQ(begun.Weights(), first);
    for (int k = 0; k < rounds; ++k) begun.Advance({}).value();
    base::CheckpointWriter writer("test/1");
    begun.Save(&writer, "id");
    const std::string bytes = std::move(writer).Finish();
    base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
    ASSERT_TRUE(resumed.Load(&reader, "id").ok());
    EXPECT_TRUE(reader.Done());
    EXPECT_EQ(resumed.Weights(), begun.Weights());
    TrainToEnd(&resumed);
    EXPECT_EQ(resumed.Weights(), whole.Weights()) << rounds;
    EXPECT_EQ(resumed.passes(), whole.passes());
    EXPECT_EQ(ModelOf(resumed), ModelOf(whole));
  }
}

TEST_P(WarmStartOf, ModelsThatDoNotFitAreRefused) {
  const Penalties penalties = Plain(2.0, GetParam().l1);
  ChainTrainer source = Make(GetParam(), penalties);
  source.Advance({}).value();
  const std::string model = ModelOf(source);
  ChainTrainer trainer = Make(GetParam(), penalties);
  EXPECT_EQ(Start(&trainer, model, Rescaling(), "another").code(), absl::StatusCode::kFailedPrecondition);
  Penalties wider = penalties;
  wider.data = RandomChains(8, 4, 50, 8, 13);
  ChainTrainer misfit = Make(GetParam(), wider);
  EXPECT_EQ(Start(&misfit, model, Rescaling()).code(), absl::StatusCode::kDataLoss);
  if (GetParam().method != "sag" || GetParam().threads > 1) return;
  // Another method, or none: with and without l1.
  Penalties other = penalties;
  other.l1 = GetParam().l1 > 0.0 ? 0.0 : 0.5;
  ChainTrainer changed = Make(GetParam(), other);
  EXPECT_EQ(Start(&changed, model, Rescaling()).code(), absl::StatusCode::kFailedPrecondition);
}

std::vector<MethodCase> Startable() {
  std::vector<MethodCase> cases;
  for (const MethodCase& one : testing::AllMethodCases()) {
    if (!FindChainMethod(one.method).value()->forgets_its_start) cases.push_back(one);
  }
  if (!testing::OfTheLab()) cases.push_back({"saga", 1, 0.5});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Methods, WarmStartOf, ::testing::ValuesIn(Startable()), testing::NameOfCase);

// At an optimum the remembered gradients are those of the weights: then d + l2 w of whoever starts from there is the
// gradient of its own problem, which the whole data tell, too.
TEST(RescalingTest, RememberedGradientsAreThoseOfTheOtherValues) {
  const std::vector<double> some = {0.5, 2.0, 1.0, 3.0}, others = {1.5, 0.7, 1.2};
  const Penalties from = Scaled(1.0, 0.0, some), to = Scaled(3.0, 0.0, others);
  ChainLoss loss(&to.data);
  for (const MemoryMode memory :
       {MemoryMode::kMixed, MemoryMode::kMarginals, MemoryMode::kSparse, MemoryMode::kAbsolute}) {
    AverageGradientOptions options;
    options.memory = memory;
    options.step = stochastic::StepRule::kLmax;
    ProximalOptions proximal;
    proximal.average = options;
    const auto check = [&](ChainSolver* source, ChainSolver* warm, const L1Penalty& l1) {
      source->Advance(600 * from.data.sequences(), {}).value();
      base::CheckpointWriter writer("test/1");
      source->SaveModel(&writer);
      const std::string bytes = std::move(writer).Finish();
      base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
      ASSERT_TRUE(warm->WarmStart(&reader, Between(some, others)));
      const VectorXd w = warm->Weights();
      VectorXd gradient;
      ChainProblem(&loss, to.l2).Value(w, &gradient).value();
      const double truth = SmallestSubgradient(w, gradient, l1, to.data.shape().stride());
      EXPECT_GT(truth, 1.0);
      EXPECT_NEAR(warm->GradientEstimate(), truth, 1e-5 * truth) << static_cast<int>(memory);
      // The scores, and with them the loss, are what they were.
      ChainLoss before(&from.data);
      const double then = before.Value(source->Weights(), nullptr).value();
      EXPECT_NEAR(loss.Value(w, nullptr).value(), then, 1e-10 * then);
    };
    AverageGradient source = AverageGradient::Create(&from.data, from.l2, options).value();
    AverageGradient warm = AverageGradient::Create(&to.data, to.l2, options).value();
    check(&source, &warm, 0.0);
    ProximalAverage sparse_source = ProximalAverage::Create(&from.data, 0.3, from.l2, proximal).value();
    ProximalAverage sparse_warm = ProximalAverage::Create(&to.data, 0.6, to.l2, proximal).value();
    check(&sparse_source, &sparse_warm, 0.6);
  }
}

// Rows that no sequence needed for a while lag behind by steps of the old penalties.
TEST(ProximalWarmStartTest, LazyStepsAreDoneUnderTheOldStrengths) {
  const ChainData data = RandomChains(2, 5, 50, 6, 60, 0.03);
  ProximalOptions options;
  options.average.seed = 3;
  options.flush_every = 1000;
  ProximalAverage source = ProximalAverage::Create(&data, 0.3, 2.0, options).value();
  source.Advance(333, {}).value();
  base::CheckpointWriter writer("test/1");
  source.SaveModel(&writer);
  const std::string bytes = std::move(writer).Finish();
  base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
  ProximalAverage warm = ProximalAverage::Create(&data, 5.0, 50.0, options).value();
  ASSERT_TRUE(warm.WarmStart(&reader, Rescaling()));
  EXPECT_EQ(warm.Weights(), source.Weights());
  // What is saved is no part of the training.
  ProximalAverage alike = ProximalAverage::Create(&data, 0.3, 2.0, options).value();
  alike.Advance(333, {}).value();
  for (ProximalAverage* solver : {&source, &alike}) solver->Advance(100, {}).value();
  EXPECT_EQ(source.Weights(), alike.Weights());
}

}  // namespace
}  // namespace luthier::crf
