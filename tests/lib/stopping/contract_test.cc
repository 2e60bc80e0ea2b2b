#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/search/registry.h"
#include "lib/study/metrics.h"
#include "tests/contract/stopper_contract.h"
#include "tests/lib/study/builders.h"

namespace luthier::contract {
namespace {

using namespace study;

std::vector<StopperCase> Cases() {
  StudySpec spec;
  spec.space = Space({Float("x", 0, 1)});
  spec.metric.name = "loss";
  spec.algorithm = RandomOptions{};
  spec.resource = Resource{.min = 1, .max = 27, .unit = ""};
  std::vector<StopperCase> cases;
  const auto add = [&](std::string name, StudySpec with) {
    EXPECT_TRUE(search::Validate(with).ok()) << name << ": " << search::Validate(with);
    cases.push_back({std::move(name), std::move(with)});
  };
  const std::vector<std::pair<std::string, StoppingRule>> rules = {
      {"median", MedianStopping{}},
      {"median_running_mean", MedianStopping{.min_trials = 3, .interval = 2, .running_mean = true}},
      {"percentile", PercentileStopping{.percentile = 25.0}},
      {"curve", CurveStopping{}}};
  for (const auto& [name, rule] : rules) {
    StudySpec with = spec;
    with.stopping = rule;
    add(name, with);
    with.metric.goal = Goal::kMaximize;
    add(name + "_maximized", with);
  }
  StudySpec asha = spec;
  asha.algorithm = AshaOptions{.variant = AshaVariant::kStop};
  add("asha", asha);
  asha.stopping = MedianStopping{};
  add("asha_and_median", asha);
  const auto named = [](std::string name, std::optional<double> at_most = std::nullopt) {
    return MetricSpec{.name = std::move(name), .at_most = at_most};
  };
  SetMetrics({named("loss"), named("ms"), named("bytes", 2.0)}, &spec);
  spec.stopping = MedianStopping{};
  add("median_of_each", spec);
  spec.stopping = PercentileStopping{.percentile = 40.0, .running_mean = true};
  add("percentile_of_each", spec);
  spec.stopping.reset();
  spec.algorithm = AshaOptions{.variant = AshaVariant::kStop};
  add("asha_of_three", spec);
  SetMetrics({named("loss", 1.0)}, &spec);
  add("asha_with_a_bound", spec);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Rules, StopperContract, ::testing::ValuesIn(Cases()), StopperContract::Name);

}  // namespace
}  // namespace luthier::contract
