// How much work a trainer still does after it was asked to stop, and that a stop changes nothing: counted by kernels,
// in sequences and, within long ones, in operations.
#include "lib/learn/stop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>

#include "lib/crf/synth_chains.h"
#include "lib/crf/trainer.h"
#include "lib/learn/checkpoint.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/lib/learn/look_meter.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::Meter;

constexpr int64_t kPiece = int64_t{2} << 20;  // Operations between two looks at the flag.

// Three short chains, and one of many tokens and labels: a pass over it is ten pieces and more.
ChainData OneLongChain() {
  ChainData data = testing::RandomChains(22, 60, 3, 40, 14);
  const ChainData more = testing::RandomChains(23, 60, 120, 20, 14);
  const auto entries = static_cast<int64_t>(data.attribute.size());
  data.attribute.insert(data.attribute.end(), more.attribute.begin(), more.attribute.end());
  data.label.insert(data.label.end(), more.label.begin(), more.label.end());
  for (size_t t = 1; t < more.token_start.size(); ++t) data.token_start.push_back(entries + more.token_start[t]);
  data.sequence_start.push_back(data.tokens());
  return data;
}

class StopTest : public ::testing::TestWithParam<testing::MethodCase> {
 protected:
  StopTest() {
    Meter().Reset();
    Meter().raise = [this] { stop_ = true; };
  }
  ~StopTest() override { Meter().raise = nullptr; }

  ChainTrainer Make(const ChainData& data, double max_passes) {
    ChainTrainerOptions options;
    options.method = GetParam().method;
    options.threads = GetParam().threads;
    options.l1 = GetParam().l1;
    options.average.step = stochastic::StepRule::kLmax;
    options.average.seed = 3;
    options.average.block = 10;
    options.rate = 0.01;
    options.max_passes = max_passes;
    options.tolerance = 1e-2;
    return ChainTrainer::Create(&data, 2.0, options, kernels_).value();
  }
  static bool Ended(ChainOutcome outcome) {
    return outcome != ChainOutcome::kRunning && outcome != ChainOutcome::kStopped;
  }

  const Kernels kernels_ = testing::CountingKernels();
  std::atomic<bool> stop_ = false;
};

TEST_P(StopTest, IsSeenBeforeTheNextSequenceAndChangesNothing) {
  const ChainData data = testing::RandomChains(21, 4, 90, 9, 14);
  ChainTrainer whole = Make(data, 30.0);
  while (whole.Advance(&stop_) == ChainOutcome::kRunning) continue;
  const int64_t all = Meter().gathered;
  // Those that a thread had looked at the flag for: its own, the second one of saga2 or of a product, the others'.
  const int64_t most = GetParam().threads;
  base::RandomStream random(7, "test.stop");
  for (int run = 0; run < 4; ++run) {
    Meter().Reset();
    ChainTrainer trainer = Make(data, 30.0);
    int stops = 0;
    // Work that is given up is done again, so stops must be further apart than a pass.
    const auto next_stop = [&] {
      return Meter().gathered + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(all / (1 + run)) + 1)) + 1;
    };
    Meter().raise_at_gathered = 1 + run;
    while (true) {
      const ChainOutcome outcome = trainer.Advance(&stop_);
      if (stop_) {
        EXPECT_LE(Meter().gathered - Meter().raise_at_gathered, most);
        stop_ = false;
        Meter().raise_at_gathered = next_stop();
        ++stops;
      }
      if (Ended(outcome)) break;
    }
    EXPECT_GE(stops, 1);
    EXPECT_EQ(trainer.outcome(), whole.outcome());
    EXPECT_EQ(trainer.Weights(), whole.Weights());
    EXPECT_EQ(trainer.passes(), whole.passes());
  }
}

TEST_P(StopTest, IsSeenWithinALongSequenceAndACheckpointOfThatMomentGoesOn) {
  const ChainData data = OneLongChain();
  ASSERT_TRUE(CheckChainData(data).ok());
  ASSERT_GT(data.longest() * 60 * 64 * 2, 4 * kPiece);
  ChainTrainer whole = Make(data, 3.0);
  while (whole.Advance(&stop_) == ChainOutcome::kRunning) continue;
  const int64_t all = Meter().operations;
  base::RandomStream random(8, "test.stop");
  int stops = 0;
  for (int run = 0; run < 3; ++run) {
    Meter().Reset();
    const auto next_stop = [&] {
      return Meter().operations + static_cast<int64_t>(random.Uniform() * static_cast<double>(all)) + 1;
    };
    Meter().raise_at_operations = 1 + static_cast<int64_t>(random.Uniform() * 0.3 * static_cast<double>(all));
    std::unique_ptr<ChainTrainer> trainer = std::make_unique<ChainTrainer>(Make(data, 3.0));
    while (true) {
      const ChainOutcome outcome = trainer->Advance(&stop_);
      if (stop_) {
        // What the flag was just looked at for, of each thread; a step that was all but done is finished.
        EXPECT_LE(Meter().operations - Meter().raised_at, GetParam().threads * kPiece);
        stop_ = false;
        ++stops;
        Meter().raise_at_operations = next_stop();
        learn::CheckpointWriter writer("test/1");
        trainer->Save(&writer, "id");
        const std::string bytes = std::move(writer).Finish();
        learn::CheckpointReader reader = learn::CheckpointReader::Open(bytes, "test/1").value();
        trainer = std::make_unique<ChainTrainer>(Make(data, 3.0));
        ASSERT_TRUE(trainer->Load(&reader, "id").ok());
        EXPECT_TRUE(reader.Done());
      }
      if (Ended(outcome)) break;
    }
    EXPECT_EQ(trainer->outcome(), whole.outcome());
    EXPECT_EQ(trainer->Weights(), whole.Weights());
    EXPECT_EQ(trainer->passes(), whole.passes());
  }
  EXPECT_GE(stops, 3);
}

TEST_P(StopTest, EvaluationsEndToo) {
  const ChainData data = testing::RandomChains(21, 4, 90, 9, 14);
  const VectorXd w = testing::RandomWeights(data.shape(), 1, 0.3);
  ChainLoss loss(&data, GetParam().threads, kernels_);
  VectorXd gradient;
  for (const int64_t at : {1, 20}) {
    Meter().Reset();
    Meter().raise_at_gathered = at;
    loss.Value(w, &gradient, &stop_);
    EXPECT_LE(Meter().gathered - at, GetParam().threads - 1);
    stop_ = false;
    Meter().Reset();
    Meter().raise_at_gathered = at;
    loss.Evaluate(w, nullptr, &stop_);
    EXPECT_EQ(Meter().gathered, at);
    stop_ = false;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, StopTest, ::testing::ValuesIn(testing::AllMethodCases()), testing::NameOfCase);

// As one call over all tokens, and as pieces.
TEST(PiecesTest, ChangeNoBit) {
  const ChainData data = OneLongChain();
  const int K = data.labels();
  const int stride = data.shape().stride();
  const Sequence x = data.At(data.sequences() - 1);
  const int64_t T = x.tokens;
  ChainInference chain(K, T);
  base::RandomStream random(4, "test.pieces");
  AlignedDoubles e(T * stride), m(T), a(T * stride), inverse(T), b(T * stride), q(T * stride);
  AlignedDoubles w(int64_t{K} * stride), psi(w.size()), psi_t(w.size()), g(w.size());
  for (int64_t t = 0; t < T; ++t) {
    for (int k = 0; k < K; ++k) chain.scores()[t * stride + k] = 2.0 * random.Normal();
  }
  for (int j = 0; j < K; ++j) {
    for (int k = 0; k < K; ++k) w.data()[j * stride + k] = random.Normal();
  }
  const Kernels& k = chain.kernels();
  double max = 0.0;
  double log_c[2] = {};
  k.exp_scores(chain.scores(), T, K, stride, e.data(), m.data());
  k.exp_transitions(w.data(), K, stride, psi.data(), psi_t.data(), &max);
  double log_z = k.forward(e.data(), psi.data(), 0, T, K, stride, a.data(), inverse.data(), log_c);
  for (int64_t t = 0; t < T; ++t) log_z += m.data()[t];
  k.backward(e.data(), psi_t.data(), a.data(), inverse.data(), 0, T, T, K, stride, b.data(), q.data());
  k.edges(a.data(), inverse.data(), b.data(), psi.data(), T, K, stride, g.data());
  chain.SetTransitions(w.data());
  EXPECT_EQ(chain.Forward(T), log_z + static_cast<double>(T - 1) * max);
  chain.Backward();
  EXPECT_TRUE(std::equal(q.data(), q.data() + q.size(), chain.marginals()));
  EXPECT_TRUE(std::equal(g.data(), g.data() + g.size(), chain.edge_sums()));
}

TEST(GeneratedTextTest, EndsSoonWhereverAskedTo) {
  const SequenceSpec chains = {.sentences = 2000, .length = 20, .words = 50'000};
  const LetterSpec letters = {.words = 1000};
  const std::function<std::string(const std::atomic<bool>*)> texts[] = {
      [&](const std::atomic<bool>* stop) { return SynthesizeSequences(chains, stop); },
      [&](const std::atomic<bool>* stop) { return SynthesizeAttributes(chains, stop); },
      [&](const std::atomic<bool>* stop) { return SynthesizeLetters(letters, stop); }};
  for (const auto& text : texts) {
    const std::string whole = text(nullptr);
    std::atomic<bool> stop = false;
    luthier::testing::LookMeter meter([&] { stop = true; });
    EXPECT_EQ(text(&stop), whole);
    EXPECT_LE(meter.most(), 3 * learn::Pace::kOperations / 2);
    EXPECT_GE(meter.operations(), static_cast<int64_t>(whole.size()));
    const int64_t looks = meter.looks();
    EXPECT_GE(looks, 10);
    for (const int64_t at : {int64_t{1}, looks / 3, looks / 2, looks}) {
      stop = false;
      meter.Restart(at);
      EXPECT_LT(text(&stop).size(), whole.size());
      EXPECT_TRUE(meter.raised());
      EXPECT_LE(meter.after(), 3 * learn::Pace::kOperations / 2);
    }
  }
}

TEST(PiecesTest, SumsInLogarithmsAndBestLabelingsStopToo) {
  constexpr int K = 3;
  constexpr int64_t T = 5000;
  ChainInference chain(K, T);
  for (int64_t t = 0; t < T; ++t) chain.scores()[t * chain.stride()] = t == 0 ? 1e6 : 1.0;
  const std::vector<double> w(static_cast<size_t>(K * chain.stride()), 0.0);
  chain.SetTransitions(w.data());
  EXPECT_TRUE(std::isfinite(chain.Forward(T)));
  EXPECT_TRUE(chain.in_logarithms());
  const std::atomic<bool> stop = true;
  chain.StopAt(&stop);
  EXPECT_FALSE(chain.stopped());
  EXPECT_TRUE(std::isnan(chain.Forward(T)));
  EXPECT_TRUE(chain.stopped());
  chain.StopAt(&stop);
  std::vector<int32_t> best(static_cast<size_t>(T), -1);
  chain.Viterbi(T, best.data());
  EXPECT_TRUE(chain.stopped());
  EXPECT_EQ(best[0], -1);
  chain.StopAt(nullptr);
  chain.Viterbi(T, best.data());
  EXPECT_FALSE(chain.stopped());
  EXPECT_EQ(best[0], 0);
}

}  // namespace
}  // namespace luthier::crf
