#include "lib/search/metrics_taken.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/study/metrics.h"

namespace luthier::search {
namespace {

constexpr int kAny = static_cast<int>(study::kMaxMetrics);

bool Takes(const MetricsTaken& taken, bool bounds, int objectives) {
  return (taken.bounds || !bounds) && objectives <= taken.most_objectives;
}

}  // namespace

const std::vector<MetricsTaken>& AllMetricsTaken() {
  static const std::vector<MetricsTaken> table = {
      {"asha", true, kAny},
      {"bo", true, kAny},
      {"cma_es", true, 1},
      {"fobo", true, kAny},
      {"grid", true, kAny},
      {"halton", true, kAny},
      {"harmonica", false, 1},
      {"hbo", true, kAny},
      {"hoag", false, 1},
      {"hyperband", true, kAny},
      {"iterdiff", false, 1},
      {"lbo", true, 1},
      {"nsga2", true, kAny},
      {"projected_gradient", false, 1},
      {"random", true, kAny},
      {"sobol", true, kAny},
      {"successive_halving", true, kAny},
      {"tpe", true, kAny},
  };
  return table;
}

absl::Status CheckMetrics(const study::StudySpec& spec, const study::AlgorithmSpec& chosen) {
  const bool bounds = study::HasBounds(spec);
  const int objectives = study::ObjectiveCount(spec);
  if (!bounds && objectives <= 1) return absl::OkStatus();
  const std::string name = study::AlgorithmName(chosen);
  std::vector<std::string> others;
  const MetricsTaken* mine = nullptr;
  for (const MetricsTaken& taken : AllMetricsTaken()) {
    if (taken.algorithm == name) mine = &taken;
    if (Takes(taken, bounds, objectives)) others.push_back(taken.algorithm);
  }
  if (mine != nullptr && Takes(*mine, bounds, objectives)) return absl::OkStatus();
  const std::string named = study::AlgorithmName(spec.algorithm);
  std::string what;
  if (mine != nullptr && objectives > mine->most_objectives) {
    what = mine->most_objectives == 1 ? "several objectives" : absl::StrCat(objectives, " objectives");
  }
  if (bounds && !(mine != nullptr && mine->bounds))
    absl::StrAppend(&what, what.empty() ? "" : " or ", "bounds on metrics");
  return base::BadField("algorithm",
                        absl::StrCat(name, named == name ? "" : absl::StrCat(", which ", named, " chooses,"),
                                     " does not take ", what, "; use one of ", absl::StrJoin(others, ", ")));
}

}  // namespace luthier::search
