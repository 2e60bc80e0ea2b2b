#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "lib/search/harmonica/designer.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/search/registry.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/spectral/testing.h"
#include "tests/lib/study/builders.h"

// How often whole runs succeed, over enough seeds to tell.
namespace luthier::search {
namespace {

constexpr int kBits = 60;

study::StudySpec SpecOf(uint64_t seed, const study::HarmonicaOptions& options) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < kBits; ++i) parameters.push_back(study::Bool("b" + std::to_string(i)));
  study::StudySpec spec;
  spec.space = study::Space(parameters);
  spec.metric.name = "loss";
  spec.algorithm = options;
  spec.budget.max_trials = 10000;
  spec.seed = seed;
  return spec;
}

spectral::Bits BitsOf(const study::Parameters& p) {
  spectral::Bits x(kBits);
  for (int i = 0; i < kBits; ++i) x[i] = std::get<bool>(p.at("b" + std::to_string(i))) ? -1.0f : 1.0f;
  return x;
}

// The true values of the settings tried.
template <typename Value>
std::vector<double> Play(const study::StudySpec& spec, int asks, double noise, const Value& value) {
  base::RandomStream random(spec.seed, "test/observation");
  HarmonicaDesigner designer(spec, std::get<study::HarmonicaOptions>(spec.algorithm), AllAlgorithms());
  contract::FakeStudy study;
  std::vector<double> values;
  for (int i = 0; i < asks; ++i) {
    const Suggestion suggestion = *designer.Suggest(study.history(), study.asks(), base::StopToken());
    values.push_back(value(BitsOf(suggestion.parameters)));
    study.Suggested(suggestion);
    study.Finish(study.Store(), contract::Complete(values.back() + noise * random.Normal()));
  }
  return values;
}

// Twenty terms on 25 of 60 bits: two stages and 100 random settings of what they leave, against 700 random settings.
TEST(HarmonicaRates, BeatsRandomSearchOfTheSameLength) {
  for (const int terms : {20, 30}) {
    int wins = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      base::RandomStream random(seed, "test/oracle6");
      const spectral::Polynomial g = spectral::RandomPolynomial(random, terms == 20 ? 25 : 30, terms, 3);
      const auto value = [&](const spectral::Bits& x) { return Evaluate(g, x); };
      const study::StudySpec spec = SpecOf(seed, {.samples = 300});
      const std::vector<double> ours = Play(spec, 700, 0.1, value);
      const study::Encoding encoding(spec.space);
      double theirs = std::numeric_limits<double>::infinity();
      for (uint64_t i = 0; i < 700; ++i) {
        theirs = std::min(theirs, value(BitsOf(ExplorationPoint(encoding, seed, i))));
      }
      wins += *std::min_element(ours.begin(), ours.end()) < theirs ? 1 : 0;
    }
    std::printf("%d terms: better than random search in %d of 40\n", terms, wins);
    EXPECT_GE(wins, 34);
  }
}

// A second polynomial counts inside the first one's best cube only: each stage lowers the mean, paired over seeds.
TEST(HarmonicaRates, EveryStageLowersTheMean) {
  constexpr int kSeeds = 12;
  std::vector<double> first_drop, second_drop;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    base::RandomStream random(seed, "test/stages");
    const spectral::Polynomial a = spectral::RandomPolynomial(random, 20, 5, 3);
    spectral::Polynomial b = spectral::RandomPolynomial(random, 20, 5, 3);
    for (spectral::Term& term : b.terms) {
      for (int& bit : term.bits) bit += 30;
    }
    const double least = spectral::Minimizers(a, 1, base::StopToken()).value()[0].value;
    const auto value = [&](const spectral::Bits& x) {
      const double outer = Evaluate(a, x);
      return outer + (outer < 0.7 * least ? Evaluate(b, x) : 0.0);
    };
    const std::vector<double> values = Play(SpecOf(seed, {.samples = 300}), 700, 0.1, value);
    const auto mean = [&](size_t from, size_t to) {
      double sum = 0.0;
      for (size_t i = from; i < to; ++i) sum += values[i] / static_cast<double>(to - from);
      return sum;
    };
    first_drop.push_back(mean(0, 300) - mean(300, 600));
    second_drop.push_back(mean(300, 600) - mean(600, 700));
  }
  for (const std::vector<double>& drops : {first_drop, second_drop}) {
    double mean = 0.0, square = 0.0;
    for (const double d : drops) mean += d / kSeeds;
    for (const double d : drops) square += (d - mean) * (d - mean) / (kSeeds - 1);
    const double t = mean / std::sqrt(square / kSeeds);
    std::printf("mean drop %.2f, t %.1f\n", mean, t);
    EXPECT_GT(t, 2.718);  // p = 0.01, one-sided, 11 degrees of freedom.
  }
}

}  // namespace
}  // namespace luthier::search
