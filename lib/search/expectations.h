#ifndef LUTHIER_LIB_SEARCH_EXPECTATIONS_H_
#define LUTHIER_LIB_SEARCH_EXPECTATIONS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/study_spec.h"

// The details of a suggestion (Suggestion::details) that say what the models of several metrics expected of its
// setting.
namespace luthier::search {

// Returns the name of a detail of a metric, which for "mean" of "ms" is "mean.ms": at most 64 characters.
std::string DetailOfMetric(absl::string_view what, absl::string_view metric);

// An expectation of one metric, in its units.
struct MetricExpectation {
  std::string metric;
  std::optional<double> mean, sd;     // They are absent if its model was not asked.
  std::optional<double> bounds_kept;  // The probability that it keeps its bounds; absent without bounds, or if unknown.
};

// Returns the expectations of a suggestion with these details, in order of spec.metrics: from the details mean.NAME,
// sd.NAME and kept.NAME, and for the only objective predicted_mean and predicted_sd. Bounds that no model was asked
// for, as all results keep them by far, count as kept. Empty in studies with one metric, and for a suggestion that no
// model made.
std::vector<MetricExpectation> ExpectationsOf(const study::StudySpec& spec,
                                              const std::map<std::string, double>& details);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_EXPECTATIONS_H_
