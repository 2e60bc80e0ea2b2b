#include "lib/crf/solvers/block_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/problem.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using testing::AverageForm;
using testing::RandomChains;
using testing::WithValues;

AverageGradientOptions Options(AverageMethod method, Sampling sampling, StepRule step, int threads, int64_t block) {
  AverageGradientOptions options = AverageForm{method, sampling, step}.Options(11);
  options.threads = threads;
  options.block = block;
  return options;
}

std::unique_ptr<BlockAverage> MakeBlock(const ChainData& data, double l2, const AverageGradientOptions& options) {
  return BlockAverage::Create(&data, l2, options).value();
}

std::string Saved(const BlockAverage& solver) {
  base::CheckpointWriter writer("test/1");
  solver.Save(&writer);
  return std::move(writer).Finish();
}

void Load(const std::string& bytes, BlockAverage* solver) {
  base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
  ASSERT_TRUE(solver->Load(&reader));
  EXPECT_TRUE(reader.Done());
}

// The block method on dense vectors, step by step: uniform draws, one step for all.
VectorXd Plain(const ChainData& data, double l2, AverageMethod method, double step, uint64_t seed, int64_t most,
               int64_t iterations) {
  const double lambda = l2 / static_cast<double>(data.sequences());
  ChainLoss loss(&data);
  stochastic::Sampler sampler(Sampling::kUniform, data.sequences(), seed);
  VectorXd w = VectorXd::Zero(loss.dim()), d = w;
  std::map<int64_t, VectorXd> memory;
  const auto remembered = [&](int64_t i) {
    return memory.contains(i) ? memory[i] : VectorXd(VectorXd::Zero(w.size()));
  };
  const auto per_stored = [](size_t stored) { return 1.0 / static_cast<double>(std::max<size_t>(stored, 1)); };
  for (int64_t t = 0; t < iterations;) {
    // Gradients at the weights that an unchanged d leads to.
    const int64_t size = std::clamp<int64_t>(static_cast<int64_t>(memory.size()) / 8, 1, most);
    std::vector<std::pair<int64_t, int64_t>> drawn;
    std::map<int64_t, VectorXd> gradient;
    VectorXd ahead = w;
    std::set<int64_t> stored;
    for (const auto& [i, g] : memory) stored.insert(i);
    const auto look = [&](int64_t i) {
      if (gradient.contains(i)) return;
      const auto row = static_cast<int32_t>(i);
      gradient[i] = VectorXd::Zero(w.size());
      loss.AddSubset(&row, 1, ahead, &gradient[i]).value();
    };
    for (int64_t k = 0; k < size; ++k) {
      const int64_t i = sampler.Next().index;
      base::RandomStream stream(seed, "stochastic.second", static_cast<uint64_t>(t + k + 1));
      const auto j = static_cast<int64_t>(stream.UniformInt(static_cast<uint64_t>(data.sequences())));
      drawn.emplace_back(i, j);
      look(i);
      if (method != AverageMethod::kSaga2) stored.insert(i);
      ahead = (1.0 - step * lambda) * ahead - step * per_stored(stored.size()) * d;
      if (method != AverageMethod::kSaga2) continue;
      look(j);
      stored.insert(j);
    }
    for (const auto& [i, j] : drawn) {
      ++t;
      const VectorXd change = gradient[i] - remembered(i);
      if (method == AverageMethod::kSag) d += change;
      if (method != AverageMethod::kSaga2) memory[i] = gradient[i];
      w = (1.0 - step * lambda) * w - step * per_stored(memory.size()) * d;
      if (method != AverageMethod::kSag) w -= step * change;
      if (method == AverageMethod::kSaga) d += change;
      if (method == AverageMethod::kSaga2) {
        d += gradient[j] - remembered(j);
        memory[j] = gradient[j];
      }
    }
  }
  return w;
}

TEST(BlockAverageTest, IsTheMethodOnDenseVectors) {
  const ChainData data = WithValues(RandomChains(12, 4, 60, 7, 15), 2);
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga, AverageMethod::kSaga2}) {
    for (const int64_t block : {1, 3, 6}) {
      AverageGradientOptions options = Options(method, Sampling::kUniform, StepRule::kConstant, 2, block);
      options.constant_step = 0.02;
      const std::unique_ptr<BlockAverage> solver = MakeBlock(data, 4.0, options);
      solver->Advance(300, {}).value();
      const VectorXd plain = Plain(data, 4.0, method, 0.02, 11, block, solver->iterations());
      // What is remembered is rounded to float.
      EXPECT_LT((solver->Weights() - plain).lpNorm<Eigen::Infinity>(), 1e-5)
          << AverageMethodNames()[static_cast<size_t>(method)] << " " << block;
      EXPECT_GT(plain.lpNorm<Eigen::Infinity>(), 0.1);
    }
  }
}

TEST(BlockAverageTest, BlocksOfOneAreTheSequentialMethod) {
  const ChainData data = RandomChains(3, 5, 50, 7, 10);
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga, AverageMethod::kSagaLiteral}) {
    for (const Sampling sampling : {Sampling::kMixed, Sampling::kLipschitz, Sampling::kPermutation}) {
      const AverageGradientOptions options = Options(method, sampling, StepRule::kLmax, 2, 1);
      const std::unique_ptr<BlockAverage> blocks = MakeBlock(data, 1.0, options);
      AverageGradient sequential = AverageGradient::Create(&data, 1.0, options).value();
      blocks->Advance(150, {}).value();
      sequential.Advance(150, {}).value();
      EXPECT_LT((blocks->Weights() - sequential.Weights()).lpNorm<Eigen::Infinity>(), 1e-4);
      EXPECT_EQ(blocks->passes(), sequential.passes());
    }
  }
}

TEST(BlockAverageTest, FindsTheOptimum) {
  const ChainData data = RandomChains(1, 4, 60, 8, 15);
  ChainLoss loss(&data);
  const ChainProblem h(&loss, 3.0);
  const double optimum = testing::MinimumOf(data, 3.0).value;
  for (const AverageForm& c : {AverageForm{AverageMethod::kSag, Sampling::kMixed, StepRule::kHedge},
                               AverageForm{AverageMethod::kSag, Sampling::kLipschitz, StepRule::kLmax},
                               AverageForm{AverageMethod::kSaga, Sampling::kMixed, StepRule::kLmax},
                               AverageForm{AverageMethod::kSaga, Sampling::kPermutation, StepRule::kLmax},
                               AverageForm{AverageMethod::kSaga2, Sampling::kLipschitz, StepRule::kLmax}}) {
    const bool foreseen = c.method == AverageMethod::kSag;
    for (const int64_t block : {1, foreseen ? 6 : 2}) {
      for (const MemoryMode memory : {MemoryMode::kMixed, MemoryMode::kMarginals}) {
        AverageGradientOptions options = Options(c.method, c.sampling, c.step, 2, block);
        options.memory = memory;
        const std::unique_ptr<BlockAverage> solver = MakeBlock(data, 3.0, options);
        ASSERT_EQ(solver->Advance(500 * data.sequences(), {}).value(), SolverState::kRunning);
        EXPECT_LT(h.Value(solver->Weights(), nullptr).value() - optimum, 1e-9 * optimum)
            << testing::Describe(c) << " " << block;
        EXPECT_LT(solver->GradientEstimate(), 1e-2);
      }
    }
  }
}

TEST(BlockAverageTest, TheNumberOfThreadsChangesNoBit) {
  const ChainData plain = RandomChains(4, 20, 120, 8, 30);
  const ChainData valued = WithValues(plain, 3);
  for (const ChainData* data : {&plain, &valued}) {
    for (const AverageMethod method :
         {AverageMethod::kSag, AverageMethod::kSaga, AverageMethod::kSagaLiteral, AverageMethod::kSaga2}) {
      for (const Sampling sampling : {Sampling::kUniform, Sampling::kLipschitz, Sampling::kMixed}) {
        std::vector<std::string> states;
        for (const int threads : {1, 2, 3, 4}) {
          const std::unique_ptr<BlockAverage> solver =
              MakeBlock(*data, 1.0, Options(method, sampling, StepRule::kLmax, threads, 12));
          solver->Advance(400, {}).value();
          states.push_back(Saved(*solver));
        }
        for (const std::string& state : states) EXPECT_EQ(state, states[0]);
      }
    }
  }
}

TEST(BlockAverageTest, ResumingGivesTheSameBits) {
  const ChainData data = RandomChains(4, 4, 100, 8, 12);
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga, AverageMethod::kSaga2}) {
    for (const Sampling sampling :
         {Sampling::kUniform, Sampling::kPermutation, Sampling::kCyclic2, Sampling::kLipschitz, Sampling::kMixed}) {
      const AverageGradientOptions options = Options(method, sampling, StepRule::kLmax, 2, 7);
      const std::unique_ptr<BlockAverage> whole = MakeBlock(data, 1.0, options);
      const std::unique_ptr<BlockAverage> first = MakeBlock(data, 1.0, options);
      first->Advance(203, {}).value();
      whole->Advance(203, {}).value();
      EXPECT_LT(whole->iterations(), 203 + 7);
      whole->Advance(203, {}).value();
      AverageGradientOptions other = options;
      other.threads = 3;
      const std::unique_ptr<BlockAverage> second = MakeBlock(data, 1.0, other);
      Load(Saved(*first), second.get());
      for (int k = 0; k < 10; ++k) {
        second->Weights();  // Looking changes nothing.
        second->GradientEstimate();
      }
      second->Advance(203, {}).value();
      EXPECT_EQ(Saved(*second), Saved(*whole));
      // What is cut off, or of another problem, is refused.
      const ChainData misfit_data = RandomChains(4, 4, 100, 8, 13);
      const std::unique_ptr<BlockAverage> misfit = MakeBlock(misfit_data, 1.0, options);
      const std::string bytes = Saved(*first);
      base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
      EXPECT_FALSE(misfit->Load(&reader));
    }
  }
}

// Whenever it comes, also in the middle of a block.
TEST(BlockAverageTest, AStopChangesNothing) {
  const ChainData data = RandomChains(5, 6, 150, 12, 40);
  base::RandomStream random(1, "test.stop");
  for (const AverageMethod method : {AverageMethod::kSag, AverageMethod::kSaga2}) {
    const AverageGradientOptions options = Options(method, Sampling::kMixed, StepRule::kHedge, 2, 16);
    const std::unique_ptr<BlockAverage> whole = MakeBlock(data, 1.0, options);
    whole->Advance(1500, {}).value();
    std::unique_ptr<BlockAverage> solver = MakeBlock(data, 1.0, options);
    int stops = 0;
    while (solver->iterations() < 1500) {
      const base::StopSource source;
      const uint64_t delay = random.UniformInt(200000);
      std::thread stopper([&source, delay] {
        for (std::atomic<uint64_t> k = 0; k < delay; ++k) continue;
        source.RequestStop();
      });
      if (!solver->Advance(1500 - solver->iterations(), source.token()).ok()) {
        ++stops;
        std::unique_ptr<BlockAverage> next = MakeBlock(data, 1.0, options);
        Load(Saved(*solver), next.get());
        solver = std::move(next);
      }
      stopper.join();
    }
    EXPECT_EQ(Saved(*solver), Saved(*whole)) << stops << " stops";
  }
}

TEST(BlockAverageTest, RefusesWhatItCannotDo) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradientOptions options;
  options.threads = 2;
  options.memory = MemoryMode::kSparse;
  const absl::Status sparse = BlockAverage::Create(&data, 1.0, options).status();
  EXPECT_EQ(sparse.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(sparse.message()), ::testing::HasSubstr("memory sparse is for one thread"));
  options.memory = MemoryMode::kMixed;
  options.shared_constant = true;
  EXPECT_EQ(BlockAverage::Create(&data, 1.0, options).status().code(), absl::StatusCode::kInvalidArgument);
  options.shared_constant = false;
  options.step = StepRule::kPort;
  EXPECT_EQ(BlockAverage::Create(&data, 1.0, options).status().code(), absl::StatusCode::kInvalidArgument);
  options.step = StepRule::kHedge;
  for (const int64_t bytes : {100, 15000}) {
    options.max_memory_bytes = bytes;
    EXPECT_EQ(BlockAverage::Create(&data, 1.0, options).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(BlockAverageTest, DivergenceIsReported) {
  const ChainData data = RandomChains(7, 4, 30, 8, 15);
  AverageGradientOptions options = Options(AverageMethod::kSag, Sampling::kCyclic, StepRule::kConstant, 2, 4);
  options.constant_step = 1e308;
  const std::unique_ptr<BlockAverage> solver = MakeBlock(data, 0.0, options);
  EXPECT_EQ(solver->Advance(10 * data.sequences(), {}).value(), SolverState::kDiverged);
}

}  // namespace
}  // namespace luthier::crf
