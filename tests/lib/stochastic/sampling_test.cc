#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "lib/base/random.h"
#include "lib/stochastic/sampler.h"
#include "lib/stochastic/sampling_tree.h"
#include "lib/stochastic/step_rule.h"

namespace luthier::stochastic {
namespace {

TEST(SamplingTreeTest, AgreesWithPlainSumsUnderRandomChanges) {
  for (const int64_t n : {1, 2, 3, 8, 13, 100}) {
    base::RandomStream random(static_cast<uint64_t>(n), "test.tree");
    SamplingTree tree(n);
    std::vector<double> weights(static_cast<size_t>(n), 0.0);
    for (int round = 0; round < 20000; ++round) {
      const auto i = static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(n)));
      const double exponent = 600.0 * random.Uniform() - 300.0;
      const double weight = round % 5 == 0 ? 0.0 : round % 50 == 1 ? std::pow(10.0, exponent) : random.Uniform();
      tree.Set(i, weight);
      weights[static_cast<size_t>(i)] = weight;
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      ASSERT_NEAR(tree.sum(), sum, 1e-12 * sum);
      ASSERT_EQ(tree.max(), *std::max_element(weights.begin(), weights.end()));
      if (sum == 0.0) continue;
      for (const double u : {0.0, random.Uniform(), 0x1.fffffffffffffp-1}) {
        const auto found = static_cast<size_t>(tree.Find(u));
        ASSERT_GT(weights[found], 0.0);
        double before = 0.0;
        for (size_t k = 0; k < found; ++k) before += weights[k];
        ASSERT_LE(before, u * sum + 1e-12 * sum);
        ASSERT_GE(before + weights[found], u * sum - 1e-12 * sum);
      }
    }
  }
}

// Draws everything and gives each seen example a constant of 1 + its index.
std::vector<int64_t> Draws(Sampler& sampler, int64_t count) {
  std::vector<int64_t> draws;
  for (int64_t k = 0; k < count; ++k) {
    const Sampler::Draw draw = sampler.Next();
    sampler.SetConstant(draw.index, static_cast<double>(1 + draw.index));
    draws.push_back(draw.index);
  }
  return draws;
}

TEST(SamplerTest, OrderedSchemesVisitEveryExampleOnceAPass) {
  std::vector<int64_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  for (const Sampling sampling : {Sampling::kPermutation, Sampling::kCyclic, Sampling::kCyclic2}) {
    Sampler sampler(sampling, 20, 5);
    std::vector<std::vector<int64_t>> passes;
    for (int pass = 0; pass < 4; ++pass) {
      passes.push_back(Draws(sampler, 20));
      EXPECT_TRUE(std::is_permutation(all.begin(), all.end(), passes.back().begin()));
    }
    EXPECT_EQ(passes[0] == all, sampling == Sampling::kCyclic);
    EXPECT_EQ(passes[0] == passes[1], sampling == Sampling::kCyclic);
    EXPECT_EQ(passes[0] == passes[2], sampling != Sampling::kPermutation);
    EXPECT_EQ(passes[1] == passes[3], sampling != Sampling::kPermutation);
  }
}

TEST(SamplerTest, FrequenciesAreTheStatedProbabilities) {
  constexpr int64_t kCount = 10, kDraws = 200000;
  for (const Sampling sampling : {Sampling::kUniform, Sampling::kLipschitz, Sampling::kMixed,
                                  Sampling::kLipschitzLiteral, Sampling::kLipschitzPort, Sampling::kMixedUnseen}) {
    Sampler sampler(sampling, kCount, 6, 1.0, 0.7);
    while (sampler.seen() < kCount) Draws(sampler, 1);
    std::vector<double> seen(kCount, 0.0), stated(kCount, 0.0);
    for (int64_t k = 0; k < kDraws; ++k) {
      const Sampler::Draw draw = sampler.Next();
      EXPECT_FALSE(draw.first);
      seen[static_cast<size_t>(draw.index)] += 1.0 / kDraws;
      stated[static_cast<size_t>(draw.index)] = draw.scaled_probability / kCount;
    }
    double sum = 0.0;
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(seen[i], stated[i], 5.0 * std::sqrt(stated[i] / kDraws));
      sum += stated[i];
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(SamplerTest, PureLipschitzSamplingFindsTheUnseen) {
  Sampler sampler(Sampling::kLipschitz, 50, 7);
  std::set<int64_t> first;
  for (int k = 0; k < 2000 && first.size() < 50; ++k) {
    const Sampler::Draw draw = sampler.Next();
    EXPECT_EQ(draw.first, first.insert(draw.index).second);
    EXPECT_EQ(sampler.StartConstant(draw), draw.first ? 1.0 : 2.0);
    sampler.SetConstant(draw.index, 4.0);
  }
  EXPECT_EQ(sampler.seen(), 50);
}

TEST(SamplerTest, TheLiteralFormDoublesUpToABound) {
  Sampler sampler(Sampling::kLipschitzLiteral, 3, 7);
  while (sampler.seen() < 3) Draws(sampler, 1);
  for (int k = 0; k < 2000; ++k) {
    const Sampler::Draw draw = sampler.Next();
    const double before = sampler.constant(draw.index);
    EXPECT_EQ(sampler.StartConstant(draw), std::min(2.0 * before, 1e100));
    sampler.SetConstant(draw.index, sampler.StartConstant(draw));
    ASSERT_TRUE(std::isfinite(draw.scaled_probability));
  }
  EXPECT_EQ(sampler.max_constant(), 1e100);
}

// The third draw of many samplers, by which two were seen before; others are still unseen.
TEST(SamplerTest, PortAndUnseenHalfHaveTheirProbabilities) {
  constexpr int64_t kCount = 5;
  constexpr double kLambda = 0.4;
  for (const Sampling sampling : {Sampling::kLipschitzPort, Sampling::kMixedUnseen}) {
    const bool port = sampling == Sampling::kLipschitzPort;
    const auto probability = [&](const std::set<int64_t>& seen, int64_t i) {
      const auto m = static_cast<double>(seen.size()), n = static_cast<double>(kCount);
      double sum = 0.0;
      for (const int64_t k : seen) sum += static_cast<double>(1 + k);
      const double constant = static_cast<double>(1 + i);
      if (seen.count(i) == 0) return port ? 1.0 / n : 0.5 / (n - m);
      return port ? m / n * (constant + sum / m + 2.0 * kLambda) / (2.0 * sum + 2.0 * m * kLambda)
                  : 0.5 * constant / sum;
    };
    std::map<std::set<int64_t>, std::map<int64_t, double>> drawn;
    for (uint64_t seed = 0; seed < 60000; ++seed) {
      Sampler sampler(sampling, kCount, seed, 1.0, kLambda);
      const std::vector<int64_t> before = Draws(sampler, 2);
      const std::set<int64_t> seen(before.begin(), before.end());
      const Sampler::Draw draw = sampler.Next();
      EXPECT_NEAR(draw.scaled_probability, kCount * probability(seen, draw.index), 1e-12);
      EXPECT_EQ(draw.first, seen.count(draw.index) == 0);
      if (seen.size() == 2) drawn[seen][draw.index] += 1.0;
    }
    EXPECT_EQ(drawn.size(), 10U);
    for (auto& [seen, counts] : drawn) {
      double all = 0.0;
      for (const auto& [i, count] : counts) all += count;
      for (int64_t i = 0; i < kCount; ++i) {
        const double p = probability(seen, i);
        EXPECT_NEAR(counts[i] / all, p, 5.0 * std::sqrt(p / all)) << SamplingNames()[static_cast<size_t>(sampling)];
      }
    }
  }
}

TEST(SamplerTest, ConstantsStartAtHalfTheMeanAndDecay) {
  Sampler sampler(Sampling::kMixed, 30, 8, 3.0);
  double sum = 0.0;
  std::set<int64_t> seen;
  for (int k = 0; k < 200; ++k) {
    const Sampler::Draw draw = sampler.Next();
    if (!draw.first) {
      EXPECT_DOUBLE_EQ(sampler.StartConstant(draw), 0.9 * sampler.constant(draw.index));
      continue;
    }
    EXPECT_NEAR(sampler.StartConstant(draw), seen.empty() ? 3.0 : 0.5 * sum / static_cast<double>(seen.size()), 1e-12);
    seen.insert(draw.index);
    sum += static_cast<double>(k);
    sampler.SetConstant(draw.index, k);
    EXPECT_NEAR(sampler.mean_constant(), sum / static_cast<double>(seen.size()), 1e-12);
    EXPECT_EQ(sampler.max_constant(), k);
  }
}

TEST(SamplerTest, ResumesBitForBit) {
  for (size_t k = 0; k < SamplingNames().size(); ++k) {
    const Sampling sampling = ParseSampling(SamplingNames()[k]).value();
    Sampler whole(sampling, 23, 9);
    Draws(whole, 37);
    base::CheckpointWriter writer("sampler/1");
    whole.Save(&writer);
    const std::string bytes = std::move(writer).Finish();
    base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "sampler/1").value();
    Sampler resumed(sampling, 23, 9);
    ASSERT_TRUE(resumed.Load(&reader));
    EXPECT_EQ(Draws(resumed, 100), Draws(whole, 100)) << SamplingNames()[k];
    base::CheckpointReader again = base::CheckpointReader::Open(bytes, "sampler/1").value();
    Sampler other(sampling, 24, 9);
    EXPECT_FALSE(other.Load(&again));
  }
}

TEST(SamplerTest, ADrawThatWasPutBackComesAgainAlsoFromACheckpoint) {
  for (size_t k = 0; k < SamplingNames().size(); ++k) {
    const Sampling sampling = ParseSampling(SamplingNames()[k]).value();
    Sampler whole(sampling, 23, 9), sampler(sampling, 23, 9);
    for (int draws = 0; draws < 60; ++draws) {
      const Sampler::Draw expected = whole.Next();
      sampler.PutBack(sampler.Next());
      if (draws % 7 == 3) {
        base::CheckpointWriter writer("sampler/1");
        sampler.Save(&writer);
        const std::string bytes = std::move(writer).Finish();
        base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "sampler/1").value();
        sampler.PutBack({});  // Load forgets it.
        ASSERT_TRUE(sampler.Load(&reader));
      }
      const Sampler::Draw draw = sampler.Next();
      EXPECT_EQ(draw.index, expected.index) << SamplingNames()[k];
      EXPECT_EQ(draw.scaled_probability, expected.scaled_probability);
      EXPECT_EQ(draw.first, expected.first);
      EXPECT_EQ(sampler.StartConstant(draw), whole.StartConstant(expected));
      for (Sampler* one : {&whole, &sampler}) one->SetConstant(draw.index, 1.0 + draws);
    }
  }
}

TEST(StepRuleTest, FormulasOfTheSource) {
  const auto step = [](const char* name) { return StepSize(ParseStepRule(name).value(), 0.125, 8.0, 2.0, 0.01); };
  EXPECT_EQ(step("const"), 0.125);
  EXPECT_DOUBLE_EQ(step("lmean"), 1.0 / 2.01);
  EXPECT_DOUBLE_EQ(step("lmax"), 1.0 / 8.01);
  EXPECT_DOUBLE_EQ(step("hedge"), 0.5 / 8.01 + 0.5 / 2.01);
  EXPECT_DOUBLE_EQ(step("opt"), 2.0 / 8.02);
  EXPECT_DOUBLE_EQ(step("averagehedgeopt1"), 2.0 / 5.02);
  EXPECT_DOUBLE_EQ(step("averagehedgeopt2"), 1.0 / 8.02 + 1.0 / 2.02);
  EXPECT_DOUBLE_EQ(StepSize(ParseStepRule("port").value(), 0.125, 8.0, 2.0, 0.01, 0.25),
                   0.75 / 8.01 + 0.25 * (0.5 / 8.01 + 0.5 / 2.01));
  // Never so long that shrinking turns the sign of the weights.
  EXPECT_DOUBLE_EQ(StepSize(StepRule::kConstant, 1e9, 1.0, 1.0, 2.0), 0.25);
  EXPECT_FALSE(ParseStepRule("hedgehog").ok());
  EXPECT_FALSE(ParseSampling("").ok());
}

}  // namespace
}  // namespace luthier::stochastic
