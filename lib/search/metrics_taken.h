#ifndef LUTHIER_LIB_SEARCH_METRICS_TAKEN_H_
#define LUTHIER_LIB_SEARCH_METRICS_TAKEN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Says what an algorithm can do with the metrics of a study beyond one objective without bounds.
struct MetricsTaken {
  std::string algorithm;  // Name in the registry.
  bool bounds = false;    // Metrics with at_least or at_most.
  int most_objectives = 1;
};

// Returns the entry of each algorithm, in order of name. docs/reference/study_file.md shows this table. `auto` is that
// which it chooses.
const std::vector<MetricsTaken>& AllMetricsTaken();

// Returns INVALID_ARGUMENT for a study whose algorithm, or that which `auto` chooses, can't do what the study's metrics
// ask for. `chosen`: the study's algorithm, or what `auto` chose.
absl::Status CheckMetrics(const study::StudySpec& spec, const study::AlgorithmSpec& chosen);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_METRICS_TAKEN_H_
