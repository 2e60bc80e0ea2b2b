// Suggestions in finite spaces: none twice, whatever the algorithm.
#include "lib/search/untried.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/search/registry.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using study::Bool;
using study::Categorical;
using study::Float;
using study::Int;
using study::Parameters;
using study::Space;
using study::When;

std::vector<study::AlgorithmSpec> Repeating() {
  return {study::RandomOptions{}, study::SobolOptions{}, study::HaltonOptions{},
          study::TpeOptions{},    study::CmaEsOptions{}, study::HarmonicaOptions{},
          study::GridOptions{},   study::AutoOptions{},  study::BoDefaults(study::BoPreset::kBo),
          study::Nsga2Options{}};
}

study::StudySpec SpecOf(const study::SearchSpace& space, study::AlgorithmSpec algorithm, int64_t max_trials = 1000) {
  study::StudySpec spec;
  spec.space = space;
  spec.metric.name = "loss";
  spec.algorithm = std::move(algorithm);
  spec.budget.max_trials = max_trials;
  spec.seed = 11;
  return spec;
}

// Asks until the space is exhausted; expects every setting once.
void ExpectEachOnce(const study::SearchSpace& space, const study::AlgorithmSpec& algorithm, size_t settings) {
  SCOPED_TRACE(study::AlgorithmName(algorithm));
  MemoryStudy study(SpecOf(space, algorithm));
  std::set<Parameters> seen;
  for (size_t i = 0; i < settings; ++i) {
    if (i % 3 == 1) study.Restart();
    const absl::StatusOr<Suggestion> s = study.TryAsk();
    ASSERT_TRUE(s.ok()) << i << ": " << s.status();
    EXPECT_TRUE(seen.insert(s->parameters).second) << i << ": " << study::FormatParameters(s->parameters);
    // Several are open at once.
    if (i % 2 == 1) study.Complete(study.newest() - 1, std::sin(static_cast<double>(i)));
    if (i % 2 == 1) study.Complete(study.newest(), std::cos(static_cast<double>(i)));
  }
  const absl::Status end = study.TryAsk().status();
  EXPECT_EQ(base::GetReason(end), base::reason::kSpaceExhausted) << end;
  EXPECT_EQ(end.code(), absl::StatusCode::kOutOfRange);
}

TEST(UntriedTest, EveryAlgorithmTriesEachSettingOfASmallSpaceOnce) {
  for (const study::AlgorithmSpec& algorithm : Repeating()) {
    ExpectEachOnce(Space({Int("a", 1, 3), Categorical("b", {"x", "y"})}), algorithm, 6);
    ExpectEachOnce(Space({Bool("only")}), algorithm, 2);
    ExpectEachOnce(Space({Categorical("kind", {"a", "b"}), When("kind", {std::string("b")}, Int("n", 0, 4))}),
                   algorithm, 6);
  }
}

TEST(UntriedTest, ConvergedAlgorithmsGoOnAroundTheBest) {
  for (const study::AlgorithmSpec& algorithm :
       std::vector<study::AlgorithmSpec>{study::TpeOptions{}, study::CmaEsOptions{}}) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    MemoryStudy study(SpecOf(Space({Int("a", 1, 8), Int("b", 1, 8)}), algorithm));
    std::set<Parameters> seen;
    const auto loss = [](const Parameters& p) {
      return std::abs(std::get<double>(p.at("a")) - 6.0) + std::abs(std::get<double>(p.at("b")) - 3.0);
    };
    study.Run(40, [&](const Parameters& p) {
      EXPECT_TRUE(seen.insert(p).second);
      return loss(p);
    });
    EXPECT_EQ(seen.count({{"a", 6.0}, {"b", 3.0}}), 1u);
  }
}

TEST(UntriedTest, SettingsOfUsersCountAndWhateverBecameOfTheTrials) {
  for (const study::AlgorithmSpec& algorithm : Repeating()) {
    if (study::AlgorithmName(algorithm) == "grid") continue;  // Its points are its own.
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    MemoryStudy study(SpecOf(Space({Int("a", 1, 4)}), algorithm));
    study.Complete(study.Enqueue({{"a", 2.0}}), 0.5);
    std::set<double> seen;
    for (int i = 0; i < 3; ++i) {
      seen.insert(std::get<double>(study.Ask().parameters.at("a")));
      if (i == 0) study.Cancel(study.newest());
      if (i == 1) study.Fail(study.newest(), study::FailureKind::kConfig);
    }
    EXPECT_EQ(seen, (std::set<double>{1.0, 3.0, 4.0}));
    EXPECT_EQ(base::GetReason(study.TryAsk().status()), base::reason::kSpaceExhausted);
  }
}

TEST(UntriedTest, NoisyObjectivesAndRangesAreLeftAlone) {
  study::StudySpec spec = SpecOf(Space({Int("a", 1, 2)}), study::RandomOptions{});
  EXPECT_TRUE(UsesHistory(spec));
  study::BuiltinObjective noisy;
  noisy.model = "function:branin";
  noisy.options["noise"] = 0.1;
  spec.objective = noisy;
  EXPECT_FALSE(UsesHistory(spec));
  MemoryStudy study(spec);
  for (int i = 0; i < 10; ++i) study.Ask();
  EXPECT_FALSE(UsesHistory(SpecOf(Space({Int("a", 1, 2), Float("x", 0, 1)}), study::RandomOptions{})));
  EXPECT_TRUE(IsFinite(Space({Float("x", 1, 1), Bool("b")})));
  EXPECT_TRUE(IsFinite(Space({Float("x", 0, 1, study::Scale::kLinear, 0.25)})));
}

// Returns the algorithm as studies have it that were created before noise was found by data.
study::AlgorithmSpec BeforeNoise(study::AlgorithmSpec algorithm) {
  if (auto* const bo = std::get_if<study::BoOptions>(&algorithm)) bo->rules = 0;
  if (auto* const chosen = std::get_if<study::AutoOptions>(&algorithm)) chosen->rules = 2;
  return algorithm;
}

TEST(VersionTest, StaysTheFormerOneWhereNothingChanged) {
  study::BoOptions noise_found = study::BoDefaults(study::BoPreset::kFobo);
  noise_found.rules = 1;
  EXPECT_EQ(VersionOf(SpecOf(Space({Float("x", 0, 1)}), noise_found)), InfoOf(noise_found).version - 2);
  noise_found.rules = 2;
  EXPECT_EQ(VersionOf(SpecOf(Space({Float("x", 0, 1)}), noise_found)), InfoOf(noise_found).version - 1);
  EXPECT_EQ(VersionOf(SpecOf(Space({Float("x", 0, 1)}), study::AutoOptions{.rules = 3})),
            InfoOf(study::AutoOptions{}).version - 2);
  EXPECT_EQ(VersionOf(SpecOf(Space({Float("x", 0, 1)}), study::AutoOptions{.rules = 4})),
            InfoOf(study::AutoOptions{}).version - 1);
  const study::SearchSpace range = Space({Float("x", 0, 1)}), switches = Space({Bool("a"), Bool("b")});
  for (const study::AlgorithmSpec& algorithm : Repeating()) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    const int newest = InfoOf(algorithm).version;
    const std::string name = study::AlgorithmName(algorithm);
    const bool first = name == "grid" || name == "nsga2";  // There is no former version.
    const bool harmonica = study::AlgorithmName(algorithm) == "harmonica";
    const bool optimizer =
        std::holds_alternative<study::BoOptions>(algorithm) || std::holds_alternative<study::AutoOptions>(algorithm);
    if (optimizer) {
      EXPECT_EQ(VersionOf(SpecOf(range, algorithm)), newest) << "new studies repeat nothing";
    }
    const study::AlgorithmSpec stored = BeforeNoise(algorithm);
    EXPECT_EQ(VersionOf(SpecOf(range, stored)), first ? newest : newest - (optimizer ? 7 : harmonica ? 2 : 1));
    EXPECT_EQ(VersionOf(SpecOf(switches, stored)), newest - (optimizer ? 7 : harmonica ? 1 : 0));
  }
  std::vector<study::ParameterSpec> many;
  for (int i = 0; i < 21; ++i) many.push_back(Float("x" + std::to_string(i), 0, 1));
  const study::AlgorithmSpec fobo = BeforeNoise(study::BoDefaults(study::BoPreset::kFobo)),
                             bo = BeforeNoise(study::BoDefaults(study::BoPreset::kBo));
  EXPECT_EQ(VersionOf(SpecOf(Space(many), fobo)), InfoOf(fobo).version - 5);
  EXPECT_EQ(VersionOf(SpecOf(Space(many), bo)), InfoOf(bo).version - 7);
  many.pop_back();
  study::StudySpec few = SpecOf(Space(many), fobo);
  EXPECT_EQ(VersionOf(few), InfoOf(fobo).version - 7);
  study::BuiltinObjective training;
  training.model = "logistic";
  few.objective = training;
  EXPECT_EQ(VersionOf(few), InfoOf(fobo).version - 4);
  few.algorithm = BeforeNoise(study::AutoOptions{});
  EXPECT_EQ(VersionOf(few), InfoOf(few.algorithm).version - 4);
  study::SetMetrics({{.name = "loss"}, {.name = "ms", .objective = false, .at_most = 20}}, &few);
  EXPECT_EQ(VersionOf(few), InfoOf(few.algorithm).version - 3);
}

TEST(VersionTest, HarmonicaHasANewOneWhereItsBaseMayHaveLostAModel) {
  study::HarmonicaOptions options;
  options.base = study::BoDefaults(study::BoPreset::kBo);
  std::vector<study::ParameterSpec> switches;
  for (int i = 0; i < 51; ++i) switches.push_back(Bool("b" + std::to_string(i)));
  const int newest = InfoOf(options).version;
  EXPECT_EQ(VersionOf(SpecOf(Space(switches), options)), newest);
  switches.pop_back();
  EXPECT_EQ(VersionOf(SpecOf(Space(switches), options)), newest - 1);
  switches.push_back(Bool("another"));
  options.base = study::TpeOptions{};
  EXPECT_EQ(VersionOf(SpecOf(Space(switches), options)), newest - 1);
}

TEST(UntriedTest, ALargeSpaceOfWhichOnePartIsTriedGoesOnElsewhere) {
  // 2^70 settings have no number; their grid has no size.
  std::vector<study::ParameterSpec> switches;
  for (int i = 0; i < 70; ++i) switches.push_back(Bool("s" + std::to_string(i)));
  MemoryStudy study(SpecOf(Space(switches), study::TpeOptions{}));
  std::set<Parameters> seen;
  for (int i = 0; i < 60; ++i) {
    EXPECT_TRUE(seen.insert(study.Ask().parameters).second);
    study.Complete(study.newest(), 0.0);
  }
}

}  // namespace
}  // namespace luthier::search
