#ifndef LUTHIER_BENCH_REPRODUCE_RUN_H_
#define LUTHIER_BENCH_REPRODUCE_RUN_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/reproduce/settings.h"

namespace luthier::reproduce {

// One run: a setting on a problem with one seed.
struct Case {
  const Setting* setting = nullptr;
  std::string problem;
  int evaluations = 0;
  uint64_t seed = 0;
};

// Reads `PROBLEM SETTING SEED EVALUATIONS`. INVALID_ARGUMENT for any other line, and where there is no such setting.
absl::StatusOr<Case> ParseCase(absl::string_view line);

// Where a run's rows belong below `folder`: PROBLEM/SETTING/SEED.csv.
std::string PathOf(const std::string& folder, const Case& run);
// Whether they are there in full.
bool IsDone(const std::string& folder, const Case& run);

// Runs it and writes its file: evaluation,value,best,origin,bind_rate,excluded_share,suggest_ms, a row an evaluation,
// unknown numbers empty. The file appears when it is complete. A non-finite value is a failed trial. Sequential; all
// columns but suggest_ms depend on the run only.
absl::Status Execute(const std::string& folder, const Case& run);

// Returns problem,dimension,optimum, a line a problem, with a header; an unknown optimum is empty.
absl::StatusOr<std::string> ProblemTable();

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_RUN_H_
