// How much work a trainer still does after it was asked to stop, and that a stop changes nothing. Counted in sequences:
// each one's scores are gathered once (twice for a product with a Hessian), through kernels that count and, at one of
// them, raise the flag.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "lib/crf/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;

std::atomic<int64_t> gathered = 0;
std::atomic<int64_t> raise_at = INT64_MAX;
std::atomic<bool> stop = false;

void Count() {
  if (++gathered == raise_at) stop = true;
}

Kernels CountingKernels() {
  Kernels kernels = BestKernels();
  kernels.gather = [](const double* weights, int64_t row_stride, const int32_t* attribute, const double* value,
                      const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, double* scores) {
    Count();
    BestKernels().gather(weights, row_stride, attribute, value, token_start, tokens, stride, ahead, scores);
  };
  kernels.gather_lazy = [](double* rows, double* last, double now, double scale, const int32_t* attribute,
                           const double* value, const int64_t* token_start, int64_t tokens, int stride, int64_t ahead,
                           double* scores) {
    Count();
    BestKernels().gather_lazy(rows, last, now, scale, attribute, value, token_start, tokens, stride, ahead, scores);
  };
  kernels.gather_along = [](const double* rows, double now, double scale, const int32_t* attribute, const double* value,
                            const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, double* scores) {
    Count();
    BestKernels().gather_along(rows, now, scale, attribute, value, token_start, tokens, stride, ahead, scores);
  };
  return kernels;
}

struct Case {
  ChainMethod method;
  int threads = 1;
  double l1 = 0.0;
};

class StopTest : public ::testing::TestWithParam<Case> {
 protected:
  ChainTrainer Make() {
    ChainTrainerOptions options;
    options.method = GetParam().method;
    options.threads = GetParam().threads;
    options.l1 = GetParam().l1;
    options.average.step = stochastic::StepRule::kLmax;
    options.average.seed = 3;
    options.average.block = 10;
    options.rate = 0.01;
    options.max_passes = 30.0;
    options.tolerance = 1e-2;
    return ChainTrainer::Create(&data_, 2.0, options, kernels_).value();
  }
  const ChainData data_ = testing::RandomChains(21, 4, 90, 9, 14);
  const Kernels kernels_ = CountingKernels();
};

TEST_P(StopTest, IsSeenBeforeTheNextSequenceAndChangesNothing) {
  gathered = 0;
  raise_at = INT64_MAX;
  ChainTrainer whole = Make();
  while (whole.Advance(&stop) == ChainOutcome::kRunning) continue;
  const int64_t all = gathered;
  // Those that a thread had looked at the flag for: its own, the second one of saga2 or of a product, the others'.
  const int64_t most = GetParam().threads;
  base::RandomStream random(7, "test.stop");
  for (int run = 0; run < 4; ++run) {
    gathered = 0;
    ChainTrainer trainer = Make();
    int stops = 0;
    // Work that is given up is done again, so stops must be further apart than a pass.
    const auto next_stop = [&] {
      return gathered + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(all / (1 + run)) + 1)) + 1;
    };
    raise_at = 1 + run;
    while (true) {
      const ChainOutcome outcome = trainer.Advance(&stop);
      if (stop) {
        EXPECT_LE(gathered - raise_at, most);
        stop = false;
        raise_at = next_stop();
        ++stops;
      }
      if (outcome != ChainOutcome::kRunning && outcome != ChainOutcome::kStopped) break;
    }
    raise_at = INT64_MAX;
    EXPECT_GE(stops, 1);
    EXPECT_EQ(trainer.outcome(), whole.outcome());
    EXPECT_EQ(trainer.Weights(), whole.Weights());
    EXPECT_EQ(trainer.passes(), whole.passes());
  }
}

TEST_P(StopTest, EvaluationsEndToo) {
  stop = false;
  const VectorXd w = testing::RandomWeights(data_.shape(), 1, 0.3);
  ChainLoss loss(&data_, GetParam().threads, kernels_);
  VectorXd gradient;
  for (const int64_t at : {1, 20}) {
    gathered = 0;
    raise_at = at;
    loss.Value(w, &gradient, &stop);
    EXPECT_LE(gathered - raise_at, GetParam().threads - 1);
    stop = false;
    gathered = 0;
    loss.Evaluate(w, nullptr, &stop);
    EXPECT_EQ(gathered, raise_at);
    stop = false;
  }
  raise_at = INT64_MAX;
}

INSTANTIATE_TEST_SUITE_P(Methods, StopTest,
                         ::testing::Values(Case{ChainMethod::kSag}, Case{ChainMethod::kSaga}, Case{ChainMethod::kSaga2},
                                           Case{ChainMethod::kSagaLiteral}, Case{ChainMethod::kLbfgs},
                                           Case{ChainMethod::kHybrid}, Case{ChainMethod::kConstant},
                                           Case{ChainMethod::kAveraged}, Case{ChainMethod::kPegasos},
                                           Case{ChainMethod::kAdaGrad}, Case{ChainMethod::kMetaDescent},
                                           Case{ChainMethod::kExponentiated}, Case{ChainMethod::kSag, 1, 0.5},
                                           Case{ChainMethod::kSag, 2}, Case{ChainMethod::kSaga2, 2},
                                           Case{ChainMethod::kLbfgs, 2}),
                         [](const ::testing::TestParamInfo<Case>& one) {
                           return ChainMethodNames()[static_cast<size_t>(one.param.method)] +
                                  (one.param.threads > 1 ? "_threads" : "") + (one.param.l1 > 0.0 ? "_l1" : "");
                         });

}  // namespace
}  // namespace luthier::crf
