// How much work a trainer still does after it was asked to stop, and that a stop changes nothing: counted by kernels,
// in sequences and, within long ones, in operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/pace.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/synth_chains.h"
#include "lib/notation/synth_specs.h"
#include "tests/lib/base/look_meter.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::Meter;

constexpr int64_t kPiece = int64_t{2} << 20;  // Operations between two looks at the stop.

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
    Meter().raise = [this] { source_.RequestStop(); };
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
  // Whether training is over. A stop may also come too late for what Advance does, but nothing else is an error.
  bool Ended(const absl::StatusOr<ChainOutcome>& outcome) const {
    if (!outcome.ok()) {
      EXPECT_EQ(outcome.status(), base::StoppedError());
      EXPECT_TRUE(source_.stop_requested());
      return false;
    }
    return *outcome != ChainOutcome::kRunning;
  }

  const Kernels kernels_ = testing::CountingKernels();
  base::StopSource source_;
};

TEST_P(StopTest, IsSeenBeforeTheNextSequenceAndChangesNothing) {
  const ChainData data = testing::RandomChains(21, 4, 90, 9, 14);
  ChainTrainer whole = Make(data, 30.0);
  while (whole.Advance(source_.token()).value() == ChainOutcome::kRunning) continue;
  const int64_t all = Meter().gathered;
  // Those that a thread had looked at the stop for: its own, the second one of saga2 or of a product, the others'.
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
      const absl::StatusOr<ChainOutcome> outcome = trainer.Advance(source_.token());
      const bool ended = Ended(outcome);
      if (source_.stop_requested()) {
        EXPECT_LE(Meter().gathered - Meter().raise_at_gathered, most);
        source_ = base::StopSource();
        Meter().raise_at_gathered = next_stop();
        ++stops;
      }
      if (ended) break;
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
  while (whole.Advance(source_.token()).value() == ChainOutcome::kRunning) continue;
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
      const absl::StatusOr<ChainOutcome> outcome = trainer->Advance(source_.token());
      const bool ended = Ended(outcome);
      if (source_.stop_requested()) {
        // What the stop was just looked at for, of each thread; a step that was all but done is finished.
        EXPECT_LE(Meter().operations - Meter().raised_at, GetParam().threads * kPiece);
        source_ = base::StopSource();
        ++stops;
        Meter().raise_at_operations = next_stop();
        base::CheckpointWriter writer("test/1");
        trainer->Save(&writer, "id");
        const std::string bytes = std::move(writer).Finish();
        base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
        trainer = std::make_unique<ChainTrainer>(Make(data, 3.0));
        ASSERT_TRUE(trainer->Load(&reader, "id").ok());
        EXPECT_TRUE(reader.Done());
      }
      if (ended) break;
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
    EXPECT_EQ(loss.Value(w, &gradient, source_.token()).status(), base::StoppedError());
    EXPECT_LE(Meter().gathered - at, GetParam().threads - 1);
    source_ = base::StopSource();
    Meter().Reset();
    Meter().raise_at_gathered = at;
    EXPECT_EQ(loss.Evaluate(w, nullptr, source_.token()).status(), base::StoppedError());
    EXPECT_EQ(Meter().gathered, at);
    source_ = base::StopSource();
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
  EXPECT_EQ(chain.Forward(T).value(), log_z + static_cast<double>(T - 1) * max);
  ASSERT_TRUE(chain.Backward().ok());
  EXPECT_TRUE(std::equal(q.data(), q.data() + q.size(), chain.marginals()));
  EXPECT_TRUE(std::equal(g.data(), g.data() + g.size(), chain.edge_sums()));
}

TEST(GeneratedTextTest, EndsSoonWhereverAskedTo) {
  const notation::SequenceSpec chains = {.sentences = 2000, .length = 20, .words = 50'000};
  const notation::LetterSpec letters = {.words = 1000};
  const std::function<absl::StatusOr<std::string>(const base::StopToken&)> texts[] = {
      [&](const base::StopToken& stop) { return data::SynthesizeSequences(chains, stop); },
      [&](const base::StopToken& stop) { return data::SynthesizeAttributes(chains, stop); },
      [&](const base::StopToken& stop) { return data::SynthesizeLetters(letters, stop); }};
  for (const auto& text : texts) {
    const std::string whole = text({}).value();
    base::StopSource source;
    luthier::testing::LookMeter meter([&] { source.RequestStop(); });
    EXPECT_EQ(text(source.token()).value(), whole);
    EXPECT_LE(meter.most(), 3 * base::Pace::kOperations / 2);
    EXPECT_GE(meter.operations(), static_cast<int64_t>(whole.size()));
    const int64_t looks = meter.looks();
    EXPECT_GE(looks, 10);
    for (const int64_t at : {int64_t{1}, looks / 3, looks / 2, looks}) {
      source = base::StopSource();
      meter.Restart(at);
      EXPECT_EQ(text(source.token()).status(), base::StoppedError());
      EXPECT_EQ(meter.looks(), at);
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
  EXPECT_TRUE(std::isfinite(chain.Forward(T).value()));
  EXPECT_TRUE(chain.in_logarithms());
  ASSERT_TRUE(chain.Backward().ok());
  const base::StopSource source;
  source.RequestStop();
  EXPECT_EQ(chain.Backward(source.token()), base::StoppedError());
  EXPECT_EQ(chain.Forward(T, source.token()).status(), base::StoppedError());
  std::vector<int32_t> best(static_cast<size_t>(T), -1);
  EXPECT_EQ(chain.Viterbi(T, best.data(), source.token()), base::StoppedError());
  EXPECT_EQ(best[0], -1);
  ASSERT_TRUE(chain.Viterbi(T, best.data()).ok());
  EXPECT_EQ(best[0], 0);
}

}  // namespace
}  // namespace luthier::crf
