#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/search/registry.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using study::BoDefaults;
using study::BoGradients;
using study::Bool;
using study::BoPreset;
using enum study::GradientUse;

study::BoOptions With(BoPreset preset, BoGradients gradients) {
  study::BoOptions options = BoDefaults(preset);
  options.gradients = gradients;
  return options;
}

study::GradientUse Use(const study::AlgorithmSpec& algorithm, study::SearchSpace space) {
  study::StudySpec spec = BoSpec(std::move(space));
  spec.algorithm = algorithm;
  spec.resource = study::Resource{1, 27, "epochs"};
  return GradientUseOf(spec);
}

study::SearchSpace Floats() {
  return Space({Float("a", 0, 1), Float("b", 1e-3, 1, study::Scale::kLog)});
}

template <typename Options>
study::AlgorithmSpec Sampling(study::SamplerSpec sampler) {
  Options options;
  options.sampler = std::move(sampler);
  return options;
}

study::AlgorithmSpec HarmonicaOn(study::HarmonicaBase base) {
  study::HarmonicaOptions options;
  options.base = std::move(base);
  return options;
}

TEST(GradientUse, EveryAlgorithmHasItsUse) {
  const study::BoOptions full = BoDefaults(BoPreset::kFobo);
  const study::BoOptions slopes = With(BoPreset::kBo, BoGradients::kDirectional);
  const std::vector<std::pair<study::AlgorithmSpec, study::GradientUse>> table = {
      {study::AutoOptions{}, kFull},
      {study::AutoOptions{.noisy = true}, kFull},
      {BoDefaults(BoPreset::kBo), kNone},
      {With(BoPreset::kBo, BoGradients::kFull), kFull},
      {slopes, kDirectional},
      {BoDefaults(BoPreset::kHbo), kNone},
      {With(BoPreset::kHbo, BoGradients::kFull), kFull},
      {BoDefaults(BoPreset::kLbo), kNone},
      {With(BoPreset::kLbo, BoGradients::kDirectional), kDirectional},
      {full, kFull},
      {With(BoPreset::kFobo, BoGradients::kOff), kNone},
      {With(BoPreset::kFobo, BoGradients::kDirectional), kDirectional},
      {study::RandomOptions{}, kNone},
      {study::SobolOptions{}, kNone},
      {study::HaltonOptions{}, kNone},
      {study::GridOptions{}, kNone},
      {study::TpeOptions{}, kNone},
      {study::CmaEsOptions{}, kNone},
      {study::Nsga2Options{}, kNone},
      {study::HoagOptions{}, kFull},
      {study::HoagOptionsFor(study::HoagPreset::kIterdiff), kFull},
      {study::HoagOptionsFor(study::HoagPreset::kProjectedGradient), kFull},
      {study::SuccessiveHalvingOptions{}, kNone},
      {Sampling<study::SuccessiveHalvingOptions>(full), kFull},
      {study::HyperbandOptions{}, kNone},
      {Sampling<study::HyperbandOptions>(slopes), kDirectional},
      {Sampling<study::HyperbandOptions>(BoDefaults(BoPreset::kBo)), kNone},
      {study::AshaOptions{}, kNone},
      {Sampling<study::AshaOptions>(study::AutoOptions{}), kFull},
      {Sampling<study::AshaOptions>(study::TpeOptions{}), kNone},
      // Two floats are too few bits for stages: the base has the whole space.
      {HarmonicaOn(study::RandomOptions{}), kNone},
      {HarmonicaOn(full), kFull},
      {HarmonicaOn(std::get<study::AshaOptions>(Sampling<study::AshaOptions>(slopes))), kDirectional},
  };
  std::set<std::string> seen, all;
  for (const auto& [algorithm, expected] : table) {
    seen.insert(study::AlgorithmName(algorithm));
    EXPECT_EQ(study::GradientUseName(Use(algorithm, Floats())), study::GradientUseName(expected))
        << study::AlgorithmName(algorithm);
  }
  for (const AlgorithmInfo& info : Algorithms()) all.insert(info.name);
  EXPECT_EQ(seen, all) << "an algorithm is missing in the table";
}

TEST(GradientUse, NoneWithoutDifferentiableParameters) {
  const study::SearchSpace spaces[] = {
      Space({Int("a", 0, 9), Bool("b")}),
      Space({Float("a", 0, 1, study::Scale::kLinear, 0.25)}),
      Space({Float("constant", 0.5, 0.5), Int("a", 0, 9)}),
  };
  for (const study::SearchSpace& space : spaces) {
    EXPECT_EQ(Use(BoDefaults(BoPreset::kFobo), space), kNone);
    EXPECT_EQ(Use(With(BoPreset::kBo, BoGradients::kDirectional), space), kNone);
    EXPECT_EQ(Use(study::AutoOptions{}, space), kNone);
  }
  EXPECT_EQ(Use(BoDefaults(BoPreset::kFobo), Space({Float("constant", 0.5, 0.5), Float("a", 0, 1)})), kFull);
}

TEST(GradientUse, StagesOfHarmonicaReadNone) {
  std::vector<study::ParameterSpec> switches = {Float("x", 0, 1)};
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}) switches.push_back(Bool(name));
  study::StudySpec spec = BoSpec(Space(switches));
  study::HarmonicaOptions options;
  options.base = BoDefaults(BoPreset::kFobo);
  spec.algorithm = options;
  spec.budget.max_trials = 1000;
  ASSERT_TRUE(std::holds_alternative<study::HarmonicaOptions>(Resolve(spec).algorithm)) << "staged";
  EXPECT_EQ(GradientUseOf(spec), kNone);
}

TEST(GradientUse, ATrialsUseFollowsItsProvenance) {
  study::Provenance asked, added, slope;
  asked.ask_index = slope.ask_index = 3;
  slope.direction = {0.5, 1.0};
  added.designer = "user";
  for (const study::GradientUse use : {kNone, kFull}) {
    EXPECT_EQ(GradientUseOf(use, asked), use);
    EXPECT_EQ(GradientUseOf(use, added), use);
  }
  EXPECT_EQ(GradientUseOf(kDirectional, slope), kDirectional);
  EXPECT_EQ(GradientUseOf(kDirectional, added), kFull) << "no direction was asked for";
  EXPECT_EQ(GradientUseOf(kDirectional, asked), kNone) << "there was none to ask for";
}

// What the table says is what suggestions depend on: with gradients in the history or without, they are the same where
// nothing reads them, and differ where something does.
TEST(GradientUse, SuggestionsDependOnNothingElse) {
  const std::vector<study::AlgorithmSpec> algorithms = {study::AutoOptions{},        BoDefaults(BoPreset::kBo),
                                                        BoDefaults(BoPreset::kFobo), BoDefaults(BoPreset::kLbo),
                                                        study::TpeOptions{},         study::CmaEsOptions{}};
  for (const study::AlgorithmSpec& algorithm : algorithms) {
    study::StudySpec spec = BoSpec(Floats());
    spec.algorithm = algorithm;
    study::History plain, steep;
    const auto designer = CreateDesigner(spec);
    for (int64_t i = 0; i < 12; ++i) {
      const Suggestion next = designer->Suggest(plain, static_cast<uint64_t>(i), base::StopToken()).value();
      const double a = std::get<double>(next.parameters.at("a")), b = std::get<double>(next.parameters.at("b"));
      study::HistoryTrial trial;
      trial.number = i + 1;
      trial.ask_index = static_cast<uint64_t>(i);
      trial.parameters = next.parameters;
      trial.designer_state = next.designer_state;
      plain.AddStored(trial);
      steep.AddStored(trial);
      const double value = (a - 0.3) * (a - 0.3) + b;
      plain.Finish(i + 1, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
      steep.Finish(i + 1, study::TrialState::kComplete, value,
                   study::Gradient{{2.0 * (a - 0.3), 1.0}, {}, 0.0, std::nullopt}, std::nullopt);
    }
    const bool same = designer->Suggest(plain, 12, base::StopToken()).value().parameters ==
                      CreateDesigner(spec)->Suggest(steep, 12, base::StopToken()).value().parameters;
    EXPECT_EQ(same, GradientUseOf(spec) == kNone) << study::AlgorithmName(algorithm);
  }
}

}  // namespace
}  // namespace luthier::search
