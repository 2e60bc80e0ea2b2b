#include "lib/crf/inference/inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/base/random.h"
#include "lib/crf/features/shape.h"

namespace luthier::crf {
namespace {

// Everything by going through all K^T labelings, in long double.
struct Enumeration {
  long double log_z;
  std::vector<long double> q, g;  // T x K, K x K
  std::vector<int32_t> best;
};

struct Chain {
  int labels;
  int64_t tokens;
  std::vector<double> u, w;  // Without padding.

  double Score(const std::vector<int32_t>& y) const {
    double s = 0.0;
    for (int64_t t = 0; t < tokens; ++t) {
      s += u[static_cast<size_t>(t * labels + y[static_cast<size_t>(t)])];
      if (t > 0) s += w[static_cast<size_t>(y[static_cast<size_t>(t - 1)] * labels + y[static_cast<size_t>(t)])];
    }
    return s;
  }

  Enumeration Enumerate() const {
    std::vector<std::vector<int32_t>> all = {{}};
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<std::vector<int32_t>> longer;
      for (int32_t k = 0; k < labels; ++k) {
        for (std::vector<int32_t> y : all) {
          y.insert(y.begin(), k);
          longer.push_back(y);
        }
      }
      all = longer;
    }
    long double top = -INFINITY;
    Enumeration result;
    for (const auto& y : all) {
      if (Score(y) > top) {
        top = Score(y);
        result.best = y;
      }
    }
    long double z = 0.0;
    result.q.assign(static_cast<size_t>(tokens * labels), 0.0L);
    result.g.assign(static_cast<size_t>(labels * labels), 0.0L);
    for (const auto& y : all) {
      const long double p = expl(Score(y) - top);
      z += p;
      for (size_t t = 0; t < y.size(); ++t) {
        result.q[t * static_cast<size_t>(labels) + static_cast<size_t>(y[t])] += p;
        if (t > 0) result.g[static_cast<size_t>(y[t - 1] * labels + y[t])] += p;
      }
    }
    for (auto* array : {&result.q, &result.g}) {
      for (long double& x : *array) x /= z;
    }
    result.log_z = top + logl(z);
    return result;
  }
};

Chain RandomChain(uint64_t seed, int labels, int64_t tokens, double scale) {
  base::RandomStream random(seed, "test.chain");
  Chain chain{labels, tokens, {}, {}};
  for (int64_t i = 0; i < tokens * labels; ++i) chain.u.push_back(scale * random.Normal());
  for (int i = 0; i < labels * labels; ++i) chain.w.push_back(scale * random.Normal());
  return chain;
}

std::vector<double> Padded(const std::vector<double>& x, int labels) {
  const int stride = Shape{0, labels}.stride();
  const size_t rows = x.size() / static_cast<size_t>(labels);
  std::vector<double> padded(rows * static_cast<size_t>(stride), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    padded[i / static_cast<size_t>(labels) * static_cast<size_t>(stride) + i % static_cast<size_t>(labels)] = x[i];
  }
  return padded;
}

double Infer(const Chain& chain, ChainInference* inference) {
  inference->SetTransitions(Padded(chain.w, chain.labels).data());
  const std::vector<double> u = Padded(chain.u, chain.labels);
  std::copy(u.begin(), u.end(), inference->scores());
  const double log_z = inference->Forward(chain.tokens).value();
  EXPECT_TRUE(inference->Backward().ok());
  return log_z;
}

class InferenceTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() >= RunnableKernels().count) GTEST_SKIP() << "this machine has no further instruction set";
  }
  const Kernels& kernels() const { return *RunnableKernels().kernels[GetParam()]; }
};

TEST_P(InferenceTest, AgreesWithGoingThroughAllLabelings) {
  for (int labels = 1; labels <= 9; ++labels) {
    for (int64_t tokens = 1; tokens <= (labels <= 3 ? 6 : 3); ++tokens) {
      for (const double scale : {0.0, 1.0, 10.0, 200.0}) {
        const Chain chain = RandomChain(static_cast<uint64_t>(100 * labels + tokens), labels, tokens, scale);
        const Enumeration truth = chain.Enumerate();
        ChainInference inference(labels, tokens, kernels());
        const double log_z = Infer(chain, &inference);
        SCOPED_TRACE(::testing::Message() << "K " << labels << " T " << tokens << " scale " << scale << " seed "
                                          << 100 * labels + tokens << " logs " << inference.in_logarithms());
        const double rounding = 1e-15 * scale * 10.0;
        EXPECT_NEAR(log_z, static_cast<double>(truth.log_z), 1e-12 + 4.0 * rounding);
        for (int64_t t = 0; t < tokens; ++t) {
          for (int k = 0; k < labels; ++k) {
            EXPECT_NEAR(inference.marginals()[t * inference.stride() + k],
                        static_cast<double>(truth.q[static_cast<size_t>(t * labels + k)]), 1e-12 + 10.0 * rounding);
          }
          for (int k = labels; k < inference.stride(); ++k) {
            EXPECT_EQ(inference.marginals()[t * inference.stride() + k], 0.0);
          }
        }
        for (int j = 0; j < labels; ++j) {
          for (int k = 0; k < labels; ++k) {
            EXPECT_NEAR(inference.edge_sums()[j * inference.stride() + k],
                        static_cast<double>(truth.g[static_cast<size_t>(j * labels + k)]), 1e-12 + 10.0 * rounding);
          }
        }
        std::vector<int32_t> best(static_cast<size_t>(tokens));
        ASSERT_TRUE(inference.Viterbi(tokens, best.data()).ok());
        EXPECT_EQ(chain.Score(best), chain.Score(truth.best));
        EXPECT_NEAR(inference.Score(best.data(), tokens), chain.Score(best), 1e-12 * (1.0 + scale));
      }
    }
  }
}

// Forward and backward in logarithms and long double.
Enumeration SumInLogarithms(const Chain& chain) {
  const auto K = static_cast<size_t>(chain.labels);
  const auto T = static_cast<size_t>(chain.tokens);
  const auto log_sum = [](const std::vector<long double>& x) {
    const long double top = *std::max_element(x.begin(), x.end());
    long double sum = 0.0L;
    for (const long double v : x) sum += expl(v - top);
    return top + logl(sum);
  };
  std::vector<std::vector<long double>> a(T, std::vector<long double>(K, 0.0L)), b = a;
  std::vector<long double> terms(K);
  for (size_t t = 0; t < T; ++t) {
    for (size_t k = 0; k < K; ++k) {
      for (size_t j = 0; t > 0 && j < K; ++j) terms[j] = a[t - 1][j] + static_cast<long double>(chain.w[j * K + k]);
      a[t][k] = chain.u[t * K + k] + (t > 0 ? log_sum(terms) : 0.0L);
    }
  }
  for (size_t t = T - 1; t > 0; --t) {
    for (size_t j = 0; j < K; ++j) {
      for (size_t k = 0; k < K; ++k) terms[k] = b[t][k] + chain.u[t * K + k] + chain.w[j * K + k];
      b[t - 1][j] = log_sum(terms);
    }
  }
  Enumeration result = {log_sum(a[T - 1]), {}, std::vector<long double>(K * K, 0.0L), {}};
  for (size_t t = 0; t < T; ++t) {
    for (size_t k = 0; k < K; ++k) {
      result.q.push_back(expl(a[t][k] + b[t][k] - result.log_z));
      for (size_t j = 0; t > 0 && j < K; ++j) {
        result.g[j * K + k] += expl(a[t - 1][j] + chain.w[j * K + k] + chain.u[t * K + k] + b[t][k] - result.log_z);
      }
    }
  }
  return result;
}

TEST_P(InferenceTest, AgreesWithSumsInLogarithms) {
  for (const int labels : {2, 8, 22, 26, 45, 101}) {
    for (const int64_t tokens : {1, 17}) {
      for (const double scale : {0.5, 50.0}) {
        const Chain chain = RandomChain(static_cast<uint64_t>(labels), labels, tokens, scale);
        const Enumeration truth = SumInLogarithms(chain);
        ChainInference inference(labels, tokens, kernels());
        const double log_z = Infer(chain, &inference);
        SCOPED_TRACE(::testing::Message() << "K " << labels << " T " << tokens << " scale " << scale << " logs "
                                          << inference.in_logarithms());
        EXPECT_NEAR(log_z, static_cast<double>(truth.log_z), 1e-12 * (1.0 + std::abs(log_z)));
        for (int64_t t = 0; t < tokens; ++t) {
          for (int k = 0; k < labels; ++k) {
            EXPECT_NEAR(inference.marginals()[t * inference.stride() + k],
                        static_cast<double>(truth.q[static_cast<size_t>(t * labels + k)]), 1e-10);
          }
        }
        for (int j = 0; j < labels; ++j) {
          for (int k = 0; k < labels; ++k) {
            EXPECT_NEAR(inference.edge_sums()[j * inference.stride() + k],
                        static_cast<double>(truth.g[static_cast<size_t>(j * labels + k)]), 1e-10);
          }
        }
      }
    }
  }
}

TEST_P(InferenceTest, ForbiddenTransitionsAndHugeScores) {
  Chain chain = RandomChain(3, 3, 5, 1.0);
  chain.w[1] = -1e300;  // Label 1 never follows label 0.
  chain.u[4] = 700.0;
  chain.u[6] = -700.0;
  ChainInference inference(3, 5, kernels());
  const double log_z = Infer(chain, &inference);
  const Enumeration truth = chain.Enumerate();
  EXPECT_TRUE(inference.in_logarithms());
  EXPECT_NEAR(log_z, static_cast<double>(truth.log_z), 1e-10);
  EXPECT_EQ(inference.edge_sums()[1], 0.0);
  for (int t = 0; t < 5; ++t) {
    for (int k = 0; k < 3; ++k) {
      EXPECT_NEAR(inference.marginals()[t * 8 + k], static_cast<double>(truth.q[static_cast<size_t>(t * 3 + k)]),
                  1e-12);
    }
  }
  // Infinite scores and NaN are seen, not hidden.
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    chain.u[7] = bad;
    EXPECT_FALSE(std::isfinite(Infer(chain, &inference))) << bad;
  }
}

TEST_P(InferenceTest, ConstantsAddedToScoresChangeNothing) {
  const Chain chain = RandomChain(5, 6, 9, 2.0);
  ChainInference inference(6, 9, kernels());
  const double before = Infer(chain, &inference);
  const std::vector<double> q(inference.marginals(), inference.marginals() + 9 * 8);
  Chain moved = chain;
  for (double& x : moved.w) x += 3.0;
  for (int k = 0; k < 6; ++k) moved.u[static_cast<size_t>(2 * 6 + k)] -= 11.0;
  EXPECT_NEAR(Infer(moved, &inference), before + 8 * 3.0 - 11.0, 1e-11);
  for (size_t k = 0; k < q.size(); ++k) EXPECT_NEAR(inference.marginals()[k], q[k], 1e-12);
}

TEST_P(InferenceTest, ExponentialsAreAccurate) {
  std::vector<double> x(64), e(64), m(8);
  for (int round = 0; round < 200; ++round) {
    base::RandomStream random(11, "test.exp", static_cast<uint64_t>(round));
    for (double& value : x) value = -599.0 * random.Uniform() * random.Uniform();
    for (size_t t = 0; t < 8; ++t) x[8 * t] = 0.0;
    kernels().exp_scores(x.data(), 8, 8, 8, e.data(), m.data());
    for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(e[k] / std::exp(x[k]), 1.0, 5e-16) << x[k];
  }
}

TEST_P(InferenceTest, MemoryHoldsTheRoundedNumbersAndTheDifference) {
  for (const int labels : {1, 7, 8, 9, 22, 26}) {
    const int stride = Shape{0, labels}.stride();
    const int64_t tokens = 5;
    std::vector<float> memory(static_cast<size_t>(tokens * labels + 8), 0.0F);
    std::vector<double> sum(static_cast<size_t>(tokens * stride), 0.0), delta(sum.size());
    for (size_t k = 0; k < 8; ++k) memory[static_cast<size_t>(tokens * labels) + k] = 77.0F;
    for (uint64_t round = 0; round < 5; ++round) {
      const Chain chain = RandomChain(round, labels, tokens, 1.0);
      const std::vector<double> x = Padded(chain.u, labels);
      kernels().exchange(x.data(), tokens, labels, stride, memory.data(), delta.data());
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += delta[k];
      for (int64_t t = 0; t < tokens; ++t) {
        for (int k = 0; k < stride; ++k) {
          const auto at = static_cast<size_t>(t * stride + k);
          EXPECT_NEAR(sum[at], static_cast<double>(static_cast<float>(x[at])), 1e-15);
          const float kept = memory[static_cast<size_t>(t * labels + std::min(k, labels - 1))];
          EXPECT_TRUE(k >= labels || kept == static_cast<float>(x[at]));
        }
      }
    }
    for (size_t k = 0; k < 8; ++k) EXPECT_EQ(memory[static_cast<size_t>(tokens * labels) + k], 77.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, InferenceTest, ::testing::Range(0, 3), [](const auto& p) {
  return p.param < RunnableKernels().count ? std::string(p.param == 0   ? "widest"
                                                         : p.param == 1 ? "second"
                                                                        : "third")
                                           : "absent" + std::to_string(p.param);
});

}  // namespace
}  // namespace luthier::crf
