#include "lib/search/metrics_taken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/search/registry.h"
#include "lib/study/metrics.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using ::testing::HasSubstr;

study::StudySpec Declaring(const study::AlgorithmSpec& algorithm, int objectives, bool bounds) {
  study::StudySpec spec;
  spec.space = study::Space({study::Float("x", 0, 1)});
  spec.algorithm = algorithm;
  std::vector<study::MetricSpec> metrics;
  for (int i = 0; i < objectives; ++i) metrics.push_back({absl::StrCat("m", i)});
  if (bounds) metrics.front().at_most = 1.0;
  study::SetMetrics(metrics, &spec);
  return spec;
}

TEST(MetricsTakenTest, EveryAlgorithmHasItsEntry) {
  std::vector<std::string> registered, listed;
  for (const AlgorithmInfo& info : Algorithms()) {
    if (info.name != "auto") registered.push_back(info.name);
  }
  for (const MetricsTaken& taken : AllMetricsTaken()) listed.push_back(taken.algorithm);
  EXPECT_EQ(listed, registered);
}

TEST(MetricsTakenTest, TheReferenceShowsTheTable) {
  const char* root = std::getenv("LUTHIER_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run through ctest, or set LUTHIER_SOURCE_DIR to the root of the sources";
  std::stringstream text;
  text << std::ifstream(absl::StrCat(root, "/docs/reference/study_file.md")).rdbuf();
  const std::vector<std::string> lines = absl::StrSplit(text.str(), '\n');
  for (const MetricsTaken& taken : AllMetricsTaken()) {
    const std::string row =
        absl::StrCat("| `", taken.algorithm, "` | ", taken.bounds ? "yes" : "no", " | ",
                     taken.most_objectives == 1 ? "one" : absl::StrCat(taken.most_objectives), " |");
    EXPECT_TRUE(std::count(lines.begin(), lines.end(), row) == 1) << "docs/reference/study_file.md lacks " << row;
  }
}

TEST(MetricsTakenTest, WhatAnAlgorithmDoesNotTakeIsRefusedByName) {
  for (const MetricsTaken& taken : AllMetricsTaken()) {
    for (const bool bounds : {false, true}) {
      for (const int objectives : {1, 2, 8}) {
        study::StudySpec spec = Declaring(study::RandomOptions(), objectives, bounds);
        if (taken.algorithm == "bo") spec.algorithm = study::BoOptions();
        if (taken.algorithm == "sobol") spec.algorithm = study::SobolOptions();
        if (taken.algorithm == "nsga2") spec.algorithm = study::Nsga2Options();
        if (taken.algorithm == "cma_es") spec.algorithm = study::CmaEsOptions();
        if (study::AlgorithmName(spec.algorithm) != taken.algorithm) continue;
        const bool takes = (!bounds || taken.bounds) && objectives <= taken.most_objectives;
        EXPECT_EQ(Validate(spec).ok(), takes)
            << taken.algorithm << " " << bounds << " " << objectives << Validate(spec);
        if (takes) continue;
        EXPECT_THAT(std::string(Validate(spec).message()), HasSubstr("algorithm: " + taken.algorithm));
      }
    }
  }
}

TEST(MetricsTakenTest, AnAlgorithmAndItsSamplerMustTakeThem) {
  study::AshaOptions asha;
  asha.sampler = study::RandomOptions();
  study::StudySpec spec = Declaring(asha, 1, true);
  spec.resource = study::Resource{.min = 1, .max = 9, .unit = ""};
  const auto& all = AllMetricsTaken();
  const auto of_asha = std::find_if(all.begin(), all.end(), [](const auto& t) { return t.algorithm == "asha"; });
  EXPECT_EQ(Validate(spec).ok(), of_asha->bounds) << Validate(spec);
}

}  // namespace
}  // namespace luthier::search
