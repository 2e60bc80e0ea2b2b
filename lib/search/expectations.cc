#include "lib/search/expectations.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/study/metrics.h"

namespace luthier::search {

std::string DetailOfMetric(absl::string_view what, absl::string_view metric) {
  constexpr size_t kMostCharacters = 64;  // All names have at most so many.
  return absl::StrCat(what, ".", metric).substr(0, kMostCharacters);
}

std::vector<MetricExpectation> ExpectationsOf(const study::StudySpec& spec,
                                              const std::map<std::string, double>& details) {
  const auto find = [&](const std::string& name) {
    const auto found = details.find(name);
    return found == details.end() ? std::nullopt : std::optional<double>(found->second);
  };
  const bool any_kept = std::any_of(details.begin(), details.end(),
                                    [](const auto& detail) { return absl::StartsWith(detail.first, "kept."); });
  // Suggestions of former versions told the probability for all bounds together.
  const bool tells_kept = any_kept || !details.contains("p_within_bounds");
  std::vector<MetricExpectation> expectations;
  bool any = false;
  for (const study::MetricSpec& metric : spec.metrics) {
    MetricExpectation expected{metric.name, find(DetailOfMetric("mean", metric.name)),
                               find(DetailOfMetric("sd", metric.name)), find(DetailOfMetric("kept", metric.name))};
    if (study::ObjectiveCount(spec) == 1 && metric.objective) {
      expected.mean = find("predicted_mean");
      expected.sd = find("predicted_sd");
    }
    if (!expected.mean || !expected.sd) expected.mean = expected.sd = std::nullopt;
    any = any || expected.mean || expected.bounds_kept;
    if (!expected.bounds_kept && study::HasBounds(metric) && tells_kept) expected.bounds_kept = 1.0;
    expectations.push_back(std::move(expected));
  }
  return any ? expectations : std::vector<MetricExpectation>();
}

}  // namespace luthier::search
