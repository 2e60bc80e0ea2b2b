#include "tests/contract/designer_contract.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/lib/study/builders.h"

namespace luthier::contract {
namespace {

using namespace study;

std::vector<std::pair<std::string, SearchSpace>> Spaces() {
  return {
      {"Continuous", Space({Float("x", -5, 10), Float("y", 0, 15)})},
      {"Mixed",
       Space({Float("lr", 1e-5, 1, Scale::kLog), Int("layers", 1, 4), Categorical("kernel", {"rbf", "poly", "linear"}),
              Bool("bias"), Ordinal("size", {"s", "m", "l"}), Float("drop", 0, 0.5, Scale::kLinear, 0.1)})},
      {"Conditional",
       Space({When("optimizer", {"sgd"}, Float("momentum", 0, 0.99)), Categorical("optimizer", {"sgd", "adam"}),
              When("optimizer", {"adam"}, Float("beta", 0.5, 0.999, Scale::kLogit)),
              When("optimizer", {"sgd"}, Bool("nesterov")), When("nesterov", {true}, Int("delay", 0, 3))})},
      {"Categorical", Space({Categorical("a", {"u", "v", "w"}), Categorical("b", {"x", "y"}), Bool("c")})},
      {"Constant", Space({Float("x", 2, 2), Categorical("c", {"only"}), Int("i", 7, 7)})},
      {"OneDimensional", Space({Float("x", 0, 1)})},
      {"Log", Space({Float("l2", 1e-8, 1e4, Scale::kLog), Int("units", 1, 1024, 1, Scale::kLog),
                     Float("rate", 1e-300, 1e300, Scale::kLog)})},
  };
}

// Every alternative of the variant with its default options, so that none can be forgotten.
template <size_t... I>
std::vector<AlgorithmSpec> Defaults(std::index_sequence<I...>) {
  return {AlgorithmSpec(std::in_place_index<I>)...};
}

// What settings of some of the spaces must keep.
std::vector<ParameterConstraint> ConstraintsOn(const std::string& space_name) {
  ParameterConstraint sum, forbidden;
  if (space_name == "Continuous") {
    sum.sum = {{"x", 1.0}, {"y", 1.0}};
    sum.at_most = 12.0;
    return {sum};
  }
  if (space_name == "Conditional") {
    sum.sum = {{"momentum", 1.0}, {"beta", 1.0}, {"delay", -0.2}};
    sum.at_least = 0.3;
    forbidden.forbid["nesterov"].values = {true};
    forbidden.forbid["delay"].values = {0.0, 2.0};
    return {sum, forbidden};
  }
  if (space_name != "Categorical") return {};
  forbidden.forbid["a"].values = {std::string("u"), std::string("w")};
  forbidden.forbid["b"].values = {std::string("x")};
  return {forbidden};
}

// Legal settings in a finite space, by brute force over the product of all levels. Absent when there are many.
std::optional<int64_t> CountSettings(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints) {
  const LegalSettings legal(space, constraints);
  const std::optional<int64_t> cells = space.Cardinality();
  if (!cells || *cells > 1000) return std::nullopt;
  std::set<std::string> settings;
  for (int64_t cell = 0; cell < *cells; ++cell) {
    Parameters all;
    int64_t rest = cell;
    for (int i = 0; i < space.size(); ++i) {
      all[space.parameters()[i].name] = space.LevelValue(i, rest % *space.Levels(i));
      rest /= *space.Levels(i);
    }
    Parameters active;
    for (const int i : space.topological_order()) {
      if (space.IsActive(i, active)) active[space.parameters()[i].name] = all[space.parameters()[i].name];
    }
    if (legal.Contains(active)) settings.insert(FormatParameters(active));
  }
  return static_cast<int64_t>(settings.size());
}

std::vector<DesignerCase> Cases() {
  std::vector<std::pair<std::string, AlgorithmSpec>> algorithms;
  for (const AlgorithmSpec& algorithm : Defaults(std::make_index_sequence<std::variant_size_v<AlgorithmSpec>>())) {
    algorithms.emplace_back(AlgorithmName(algorithm), algorithm);
  }
  algorithms.emplace_back("bo_noisy_ei",
                          BoOptions{.initial_points = 3, .acquisition = BoAcquisition::kEi, .noisy = true});
  algorithms.emplace_back("hbo", BoDefaults(BoPreset::kHbo));
  algorithms.emplace_back("lbo", BoDefaults(BoPreset::kLbo));
  algorithms.emplace_back("fobo", BoDefaults(BoPreset::kFobo));
  BoOptions directional = BoDefaults(BoPreset::kFobo);
  directional.gradients = BoGradients::kDirectional;
  algorithms.emplace_back("fobo_directional", directional);
  algorithms.emplace_back("asha_stop", AshaOptions{.variant = AshaVariant::kStop});
  algorithms.emplace_back("asha_bo", AshaOptions{.sampler = BoOptions{.initial_points = 3}});
  algorithms.emplace_back("hyperband_grid", HyperbandOptions{.sampler = GridOptions{}});
  algorithms.emplace_back("asha_tpe", AshaOptions{.sampler = TpeOptions{.startup_trials = 3}});
  algorithms.emplace_back("asha_halton", AshaOptions{.sampler = HaltonOptions{}});
  algorithms.emplace_back("hyperband_cma_es", HyperbandOptions{.sampler = CmaEsOptions{}});
  algorithms.emplace_back("grid_plain", GridOptions{3, false});
  algorithms.emplace_back("sobol_plain", SobolOptions{false});
  HarmonicaOptions harmonica{.samples = 20, .stages = 1, .float_bits = 3, .base = BoOptions{.initial_points = 1}};
  algorithms.emplace_back("harmonica_bo", harmonica);
  harmonica.stage_resource = 3;
  harmonica.base = AshaOptions{};
  algorithms.emplace_back("harmonica_asha", harmonica);
  harmonica.base = HyperbandOptions{.sampler = TpeOptions{.startup_trials = 2}};
  algorithms.emplace_back("harmonica_hyperband", harmonica);
  harmonica.base = SuccessiveHalvingOptions{.trials = 3};
  algorithms.emplace_back("harmonica_halving", harmonica);
  algorithms.emplace_back("cma_es_small", CmaEsOptions{.population = 4, .initial_sigma = 1.0});
  algorithms.emplace_back("nsga2_small", Nsga2Options{.population = 4});
  algorithms.emplace_back("halton_plain", HaltonOptions{false});
  algorithms.emplace_back("tpe_univariate", TpeOptions{.startup_trials = 3, .multivariate = false});
  std::vector<DesignerCase> cases;
  for (const auto& [algorithm_name, algorithm] : algorithms) {
    for (const auto& [space_name, space] : Spaces()) {
      // Presets of one optimizer; tests/lib/search/robustness_test.cc turns all its switches.
      const bool preset =
          std::holds_alternative<BoOptions>(algorithm) && algorithm_name != "bo" && algorithm_name != "bo_noisy_ei";
      if (preset && space_name != "Continuous" && space_name != "Conditional") continue;
      DesignerCase c;
      c.name = algorithm_name + "_" + space_name;
      c.spec.space = space;
      c.spec.metric.name = "loss";
      c.spec.algorithm = algorithm;
      c.spec.seed = 42;
      const auto* staged = std::get_if<HarmonicaOptions>(&algorithm);
      const bool stages_in_parts = staged != nullptr && staged->stage_resource > 0;
      if (SamplerOf(algorithm) != nullptr || stages_in_parts) {
        // Mixed is the one with bits enough for stages.
        const bool conditional = space_name == "Conditional" && !stages_in_parts;
        const bool mixed = space_name == "Mixed" && stages_in_parts;
        if (space_name != "Continuous" && space_name != "Constant" && !conditional && !mixed) continue;
        c.spec.resource = Resource{.min = 1, .max = 9, .unit = "epochs"};
        c.spec.budget.max_trials = 1000;
      }
      // HOAG needs derivatives.
      if (std::holds_alternative<HoagOptions>(algorithm) && !search::Validate(c.spec).ok()) continue;
      // What comes in the place of a repetition is drawn, whatever the algorithm.
      const bool replaces = algorithm_name == "sobol_plain" && space_name == "Categorical";
      c.seeded = space_name != "Constant" && (replaces || algorithm_name.find("plain") == std::string::npos);
      c.settings = CountSettings(space, {});
      c.ends = algorithm_name.find("grid") != std::string::npos || algorithm_name.find("halving") != std::string::npos;
      cases.push_back(c);
      // The same with constraints, for those that take them.
      c.name += "_Constrained";
      c.spec.constraints = ConstraintsOn(space_name);
      if (c.spec.constraints.empty() || algorithm_name != AlgorithmName(algorithm)) continue;
      if (!search::Validate(c.spec).ok()) continue;
      c.settings = CountSettings(space, c.spec.constraints);
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

// A fit of fifty parameters takes seconds. It looks before each of its parts, the largest of which are the products of
// a likelihood: 100^3/3 multiplications, or 100^2/2 kernels of 50 coordinates. Once stopped it does nothing more.
TEST(LongFits, LookOftenAndEndAtOnce) {
  constexpr int kParameters = 50, kResults = 100;
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < kParameters; ++i) parameters.push_back(Float("x" + std::to_string(i), 0, 1));
  StudySpec spec;
  spec.space = Space(parameters);
  spec.metric.name = "loss";
  BoOptions bo;
  bo.noisy = false;  // The ask would try a setting once more, without a fit.
  spec.algorithm = bo;
  spec.seed = 42;
  const Encoding encoding(spec.space);
  FakeStudy study;
  base::RandomStream random(1, "test/long fits");
  for (int i = 0; i < kResults; ++i) {
    const Parameters setting = encoding.Sample(random);
    study.Finish(study.Enqueue(setting), Complete((encoding.ToCompact(setting).array() - 0.3).matrix().squaredNorm()));
  }
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  for (const int64_t at : {1, 100, 1500}) {
    const base::StopSource source;
    luthier::testing::LookMeter meter([&] { source.RequestStop(); }, at);
    EXPECT_EQ(designer->Suggest(study.history(), 200, source.token()).status(), base::StoppedError());
    EXPECT_EQ(meter.looks(), at);
    EXPECT_LE(meter.most(), 500'000);
    EXPECT_EQ(meter.after(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, DesignerContract, ::testing::ValuesIn(Cases()), DesignerContract::Name);

}  // namespace
}  // namespace luthier::contract
